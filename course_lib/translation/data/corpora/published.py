"""Corpora that others have published: from a mirror folder or from the web, always the same bytes."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

from course_lib.errors import BadInputError
from course_lib.translation.data.corpora.downloads import download, has_checksum
from course_lib.translation.data.corpora.parallel_text import Corpus


@dataclass(frozen=True)
class PublishedFile:
    """A file, where it is published, and what it has to be."""

    name: str
    home: str
    """The address of the folder that it lies in."""
    checksum: str
    """ "sha256:..." or, where its publisher or sacrebleu gives no other, "md5:..."."""


@dataclass(frozen=True)
class PublishedCorpus:
    """A corpus of such files, and how to read it from them."""

    name: str
    files: tuple[PublishedFile, ...]
    read: Callable[[Mapping[str, Path]], Corpus]
    """From the files, by their names."""

    @property
    def fingerprint(self) -> str:
        """A hash of what the files have to be: known before they are there."""
        checksums = [self.name, *(file.checksum for file in self.files)]
        return hashlib.sha256("\n".join(checksums).encode()).hexdigest()

    def load(self, mirror: Path | None = None, url: str | None = None, cache: Path | None = None) -> Corpus:
        """Read the corpus from a mirror folder where one is named, else download it once and keep it.

        `cache` is where it is kept, if not in the user's cache folder, and `url` the folder to download from,
        if not each file's home. Raises BadInputError where a file is missing, cannot be downloaded or is not
        the published one.
        """
        if mirror is not None:
            return self.read(self._find(mirror))
        return self.read(self.fetch(cache or user_cache_path("build-the-transformer"), url))

    def fetch(self, folder: Path, url: str | None = None) -> dict[str, Path]:
        """Download the files into a subfolder of `folder` that has the corpus's name: a mirror, then.

        Those that are there are only checked. Raises BadInputError where one can't be had.
        """
        return {file.name: self._download(file, url, folder / self.name) for file in self.files}

    def _find(self, mirror: Path) -> dict[str, Path]:
        places = [mirror / self.name, mirror]
        found = {
            file.name: next((place / file.name for place in places if (place / file.name).is_file()), None)
            for file in self.files
        }
        if missing := [name for name, path in found.items() if path is None]:
            raise BadInputError(
                f"{self.name}: expected {', '.join(missing)} in the mirror folder {mirror} or its subfolder "
                f"{self.name}, but {'it is' if len(missing) == 1 else 'they are'} missing; put them "
                "there, or name no mirror (COURSE_DATA, data.mirror) to download them"
            )
        paths = {name: path for name, path in found.items() if path is not None}
        for file in self.files:
            if not has_checksum(paths[file.name], file.checksum):
                raise BadInputError(
                    f"{paths[file.name]}: not the published file (its checksum is another); get it again "
                    f"from {file.home}/{file.name}"
                )
        return paths

    def _download(self, file: PublishedFile, url: str | None, folder: Path) -> Path:
        source = f"{(url or file.home).rstrip('/')}/{file.name}"
        try:
            return download(source, folder / file.name, file.checksum)
        except BadInputError as error:
            names = ", ".join(file.name for file in self.files)
            raise BadInputError(
                f"{error}; or set COURSE_DATA to a mirror folder whose subfolder {self.name} holds {names} "
                f"(python -m course_lib.translation.fetch {self.name} FOLDER makes one, elsewhere)"
            ) from None
