"""Multi30k, task 1: 29,000 captions of photographs in German and English.

Elliott et al. 2016 (W16-3210), with the test set of 2016. The captions are for non-commercial research and
education, so they are downloaded, or read from a mirror folder, and never shipped.
"""

import hashlib
import logging
from pathlib import Path

import pooch
import requests

from course_lib.translation.errors import BadInputError
from course_lib.translation.parallel_text import Corpus, ParallelText, read_parallel_text

#: The raw files, at the commit whose hashes stand below.
HOME = "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw"

SHA256 = {
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
}

SECONDS_TO_ANSWER = 30


def multi30k(mirror: Path | None = None, url: str = HOME, cache: Path | None = None) -> Corpus:
    """Read the corpus from a mirror folder where one is named, else download it once and keep it in `cache`.

    Every file must have its pinned hash. Raises BadInputError where one is missing, cannot be downloaded or
    is not the published one; a damaged download is not kept.
    """
    if mirror is None:
        folder = Path(cache or pooch.os_cache("build-the-transformer")) / "multi30k"
        files = {name: _download(name, url, folder) for name in SHA256}
    else:
        files = {name: _find(name, mirror) for name in SHA256}

    def split(stem: str) -> ParallelText:
        return read_parallel_text(files[f"{stem}.de.gz"], files[f"{stem}.en.gz"])

    return Corpus(train=split("train"), validation=split("val"), test=split("test_2016_flickr"))


def _find(name: str, mirror: Path) -> Path:
    places = [mirror / "multi30k" / name, mirror / name]
    path = next((path for path in places if path.is_file()), None)
    if path is None:
        raise BadInputError(
            f"{name}: expected it in the mirror folder {mirror} or its subfolder multi30k, but it is "
            "missing; put it there, or name no mirror (COURSE_DATA, data.mirror) to download it"
        )
    if hashlib.sha256(path.read_bytes()).hexdigest() != SHA256[name]:
        raise BadInputError(
            f"{path}: not the published file (its SHA-256 is another); get it again from {HOME}/{name}"
        )
    return path


def _download(name: str, url: str, folder: Path) -> Path:
    pooch.get_logger().setLevel(logging.WARNING)
    source = f"{url.rstrip('/')}/{name}"
    try:
        path = pooch.retrieve(
            source,
            known_hash=f"sha256:{SHA256[name]}",
            fname=name,
            path=folder,
            downloader=pooch.HTTPDownloader(timeout=SECONDS_TO_ANSWER),
        )
    except requests.RequestException as error:
        raise BadInputError(
            f"{source}: cannot be downloaded ({_reason(error)}); check the connection, or set COURSE_DATA "
            "to a mirror folder that holds the Multi30k files"
        ) from None
    except OSError as error:
        raise BadInputError(
            f"{folder}: downloads cannot be kept there ({error.strerror}); set data.cache"
        ) from None
    except ValueError:  # pooch has found another hash, and thrown the file away.
        raise BadInputError(
            f"{source}: what came is not the published file (its SHA-256 is another), so it was not kept; "
            "try again, or set COURSE_DATA to a mirror folder"
        ) from None
    return Path(path)


def _reason(error: requests.RequestException) -> str:
    if error.response is not None:
        return f"the server answers {error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.Timeout):
        return f"no answer in {SECONDS_TO_ANSWER} seconds"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection broke off"
    return "no connection"
