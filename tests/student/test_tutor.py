"""The tutor, in a real IPython shell and against a real HTTP server on this machine."""

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from course_lib.checks import CheckError, check
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.exercises.registry import catalogue
from course_lib.curriculum import public_curriculum
from course_lib.student.tutor import tutor, without_solution

LESSON = Path(__file__).parents[2] / "lessons/01-attention/01-attention.ipynb"
WRONG = "def attention_scores(query, key):\n    secret = 1\n    return query @ key.transpose(-2, -1)"
ANSWER = "What is the standard deviation of a sum of d products?"


def completion(text: object) -> bytes:
    return json.dumps({"choices": [{"message": {"content": text}}]}).encode()


EVENTS = (
    b": comment\n\n"
    + b"".join(
        b"data: " + json.dumps({"choices": [{"delta": delta}]}).encode() + b"\n\n"
        for delta in ({"role": "assistant"}, {"content": "What is "}, {"content": "d?"}, {})
    )
    + b"data: [DONE]\n\n"
)


class Server(ThreadingHTTPServer):
    """A server that replies as a test specifies, and records the requests."""

    status, content_type, body, pause = 200, "application/json", completion(ANSWER), 0.0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, str | None, dict[str, object]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, self.headers["Authorization"], sent))
        self.send_response(self.server.status)
        self.send_header("Content-Type", self.server.content_type)
        self.send_header("Location", "http://127.0.0.1:9/elsewhere")
        self.end_headers()
        if not self.server.pause:
            self.wfile.write(self.server.body)
            return
        with contextlib.suppress(OSError):  # The tutor disconnects before the end.
            for byte in self.server.body:
                time.sleep(self.server.pause)
                self.wfile.write(bytes([byte]))

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[Server]:
    with Server() as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def mistake() -> CheckError:
    """The error that a check of WRONG raises."""
    wrong: dict[str, object] = {}
    exec(WRONG, wrong)
    with pytest.raises(CheckError) as error:
        check("attention_scores", wrong)
    return error.value


@pytest.fixture
def failed(mistake: CheckError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The configured server, with a lesson in the current folder and a check that has just failed."""
    (tmp_path / LESSON.name).write_bytes(LESSON.read_bytes())
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delattr("sys.last_type", raising=False)  # If it existed, pytest would delete sys.last_value.
    monkeypatch.setattr("sys.last_value", mistake, raising=False)
    with serving() as server:
        monkeypatch.setenv("COURSE_TUTOR_URL", server.url)
        monkeypatch.setenv("COURSE_TUTOR_MODEL", "a-model")
        yield server


def said(capsys: pytest.CaptureFixture[str], **options: object) -> str:
    """Return the tutor's answer to a student who has agreed after seeing what would be sent."""
    tutor(agree=True, **options)  # type: ignore[arg-type]
    if "Nothing has been sent yet" in (printed := capsys.readouterr().out):
        tutor(agree=True, **options)  # type: ignore[arg-type]
        printed = capsys.readouterr().out
    return " ".join(printed.split())


def test_in_a_notebook(
    failed: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run a student's cells: the tutor shows a notice, then answers, and sends code only on request."""
    monkeypatch.setenv("COURSE_TUTOR_KEY", "k")
    monkeypatch.setattr("sys.last_value", None)
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # The shell replaces it.
    shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    errors, outputs = [], []
    for source in (
        "from course_lib.checks import check\nfrom course_lib.student.tutor import tutor",
        "tutor()",
        WRONG,
        'check("attention_scores", globals())',
        "tutor()",
        "tutor('Why?', agree=True)",
        "tutor(hints=0, code=attention_scores)",
    ):
        if error := shell.run_cell(source).error_in_exec:
            errors.append(type(error))
        outputs.append(capsys.readouterr().out)
    assert errors == [CheckError]
    assert "Run a check first" in outputs[1]
    assert "Nothing has been sent yet" in outputs[4]
    assert f"to {failed.url}. The connection is not encrypted." in outputs[4]
    assert ANSWER in outputs[5]
    assert ANSWER in outputs[6]
    (path, key, first), (_, _, second) = failed.requests
    assert (path, key, first["model"]) == ("/v1/chat/completions", "Bearer k", "a-model")
    sent, with_code = (str(request["messages"][1]["content"]) for request in (first, second))  # type: ignore[index]
    assert sent.startswith("Verdict of the check:\n✗ attention_scores: the dot products are not divided")
    hints = next(
        c
        for c in json.loads(LESSON.read_text(encoding="utf-8"))["cells"]
        if c["id"] == "hints_attention_scores"
    )
    assert sent.split("student:\n")[1].split("\n\nThe student's question:")[0] in "".join(hints["source"])
    assert sent.endswith("The student's question:\nWhy?")
    assert sent.count("opened by the student") == 1
    assert "secret" not in sent
    assert "secret = 1" in with_code
    assert "Hint" not in with_code
    shown = "".join(line.removeprefix("  | ") for line in outputs[4].splitlines(keepends=True)[2:])
    assert shown.strip() == sent.partition("\n\nThe student's question:")[0]


def test_it_is_off_unless_it_is_set_up(
    failed: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COURSE_TUTOR_URL")
    assert "The tutor is off." in said(capsys)
    assert not failed.requests


def test_a_file_sets_it_up_and_unknown_keys_are_refused(
    failed: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COURSE_TUTOR_URL")
    monkeypatch.delenv("COURSE_TUTOR_MODEL")
    [path] = [Path(word.rstrip(".")) for word in said(capsys).split() if word.endswith("tutor.toml.")]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'url = "{failed.url}"\nmodel = "of-the-file"\n', encoding="utf-8")
    assert ANSWER in said(capsys)
    assert failed.requests[0][1:] == (None, failed.requests[0][2])
    assert failed.requests[0][2]["model"] == "of-the-file"
    for text, expected in (
        ("modle = 'x'", "unknown key 'modle'"),
        ("model = ", "not valid TOML"),
        (f"url = '{failed.url}'", "name of a `model`"),
        ("url = 'ftp://x'\nmodel = 'm'", "`url` such as"),
        (f"url = '{failed.url}'\nmodel = 'm'\ntimeout = 'soon'", "positive number of seconds"),
    ):
        path.write_text(text, encoding="utf-8")
        assert expected in said(capsys)
    monkeypatch.setenv("COURSE_TUTOR_KYE", "k")
    assert "unknown key 'kye'" in said(capsys)
    assert len(failed.requests) == 1


def test_the_first_call_only_shows_the_text(failed: Server, capsys: pytest.CaptureFixture[str]) -> None:
    tutor("Why?", agree=True)
    printed = capsys.readouterr().out
    assert "Nothing has been sent yet" in printed
    assert "Why?" in printed
    assert not failed.requests
    tutor("Why?", agree=True)
    assert ANSWER in capsys.readouterr().out


def test_nothing_is_sent_to_another_server_than_agreed(
    failed: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ANSWER in said(capsys)
    with serving() as other:
        monkeypatch.setenv("COURSE_TUTOR_URL", other.url)
        tutor()
        assert f"would send the text below to {other.url}" in capsys.readouterr().out
        assert not other.requests


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"body": EVENTS, "content_type": "text/event-stream; charset=utf-8"}, "What is d?"),
        ({"status": 401}, "rejected the key (401)"),
        ({"status": 404}, "Check the `url` and the `model`"),
        ({"status": 307}, "did not accept the request (307)"),
        ({"status": 429}, "too many requests"),
        ({"status": 500}, "failed (500)"),
        ({"body": b"{"}, "not an answer"),
        ({"body": b"\xff"}, "not an answer"),
        ({"body": b'{"choices": []}'}, "not an answer"),
        ({"body": completion(None)}, "not an answer"),
        ({"body": b"[" * 50_000}, "not an answer"),
        ({"body": completion("a" * 100_001)}, "longer than 100000 bytes"),
        ({"pause": 0.1}, "did not answer within 0.5 seconds"),
        ({"pause": 2.0}, "did not answer within 0.5 seconds"),
    ],
)
def test_replies(
    failed: Server,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    reply: dict[str, object],
    expected: str,
) -> None:
    for name, value in reply.items():
        setattr(failed, name, value)
    if "pause" in reply:
        monkeypatch.setenv("COURSE_TUTOR_TIMEOUT", "0.5")
    assert expected in said(capsys)
    assert len(failed.requests) == 1


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/v1", "http://a b/v1", "http://[/v1", f"http://{'a' * 70}.x"]
)
def test_a_server_that_is_not_there(
    failed: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    monkeypatch.setenv("COURSE_TUTOR_URL", url)
    assert "can't be reached" in said(capsys)
    monkeypatch.setenv("COURSE_TUTOR_URL", failed.url)
    monkeypatch.setenv("COURSE_TUTOR_KEY", "k\nX-Other: ключ")
    assert "can't be reached" in said(capsys)


def test_code_of_the_solution_is_not_shown(failed: Server, capsys: pytest.CaptureFixture[str]) -> None:
    failed.body = completion("Do this:\n```python\na = 1\nb = 2\nc = 3\nd = 4\n```\nIs it clear?")
    assert "Do this: [4 lines of code were removed, because they may be the solution.]" in said(capsys)
    failed.body = completion("Return `query @ key.transpose(-2,-1)/math.sqrt(query.shape[-1])`.")
    assert "so it is not shown" in said(capsys)
    failed.body = completion("Try `x @ y.transpose(0, 1)`, or:\n```\nx.sum()\n```")
    assert "Try `x @ y.transpose(0, 1)`, or: ``` x.sum() ```" in said(capsys)


def test_no_reference_gets_through_word_for_word() -> None:
    exercises = [entry for entry in catalogue().values() if isinstance(entry, ExerciseCheck)]
    assert len(exercises) > 30
    for exercise in exercises:
        for text in (f"Here:\n```\n{exercise.source}\n```", f"Here:\n\n{exercise.source}", exercise.source):
            left = without_solution(text, exercise.name)
            assert "may be the solution" in left or "so it is not shown" in left, exercise.name


def test_hints_of_every_exercise_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from course_lib.student.tutor import _hints

    for lesson in public_curriculum().lessons:
        monkeypatch.chdir(LESSON.parents[1] / lesson.name)
        for exercise in lesson.exercises:
            assert len(list(_hints(exercise.name))) == 3, exercise.name


@pytest.mark.parametrize("content", ["[" * 100_000, "{}", '{"cells": ["text"]}', '{"cells": [{"id": "x"}]}'])
def test_a_damaged_notebook_has_no_hints(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from course_lib.student.tutor import _hints

    (tmp_path / "damaged.ipynb").write_text(content, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert list(_hints("attention_scores")) == []
