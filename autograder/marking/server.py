"""The web server of the marking page. It accepts only local requests with a secret token in the address."""

import asyncio
import hmac
import logging
import secrets
from collections.abc import Iterable
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup
from pydantic import BaseModel, ConfigDict, ValidationError
from sqlalchemy.exc import SQLAlchemyError
from tornado import web
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from autograder.graded_notebooks.safe_html import markdown_to_html, templates
from autograder.marking.answers import Answer, ChangedError, LessonAnswers, Question, WrittenCell
from autograder.marking.comment_bank import CommentBank, CommentError
from autograder.marking.grouping import Card, Group, differing_words, grouped
from course_lib.curriculum.course_file import CourseError

HOST = "127.0.0.1"

#: The accepted host names. Others are rejected, because a website could point its own host name at this
#: machine (DNS rebinding).
_HOSTS = {HOST, "localhost"}

#: The number of cards on a page.
PAGE = 20

#: The maximum number of characters of an answer that are shown.
_SHOWN = 100_000

_MAX_COMMENT = 20_000
_MAX_REQUEST = 1 << 20

#: A policy that allows the page's own scripts and styles, and forbids forms and requests to other servers.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_log = logging.getLogger("course mark")


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    notebook: str
    question: str


class MarkRequest(_Request):
    """A request to give one or several answers the same points and comment."""

    versions: dict[str, str]
    points: float | None
    comment: str


class CommentRequest(_Request):
    """A request to save a comment for later use."""

    key: str
    text: str


class MarkingServer:
    """The web server of one lesson's marking page, whose address contains a secret token.

    `formgrader` is the address of Formgrader, for links to whole notebooks, or an empty string.
    """

    def __init__(self, answers: LessonAnswers, bank: CommentBank, formgrader: str = "") -> None:
        self.answers, self.bank = answers, bank
        self.formgrader = formgrader.rstrip("/")
        self.token = secrets.token_urlsafe(32)

    @property
    def base(self) -> str:
        """The first part of every path on this server, which contains the secret token."""
        return f"/{self.token}"

    def listen(self, port: int = 0) -> tuple[HTTPServer, str]:
        """Start listening, and return the server and its address. With port 0, any free port is used.

        Raises OSError if the port is not free.
        """
        sockets = bind_sockets(port, HOST)
        server = HTTPServer(self.application, max_buffer_size=_MAX_REQUEST)
        server.add_sockets(sockets)
        return server, f"http://{HOST}:{sockets[0].getsockname()[1]}{self.base}/"

    @cached_property
    def application(self) -> web.Application:
        """The web application with its request handlers."""
        about = {"server": self}
        handlers = [
            (r"/([^/]+)/", _Start, about),
            (r"/([^/]+)/questions/([^/]+)/([^/]+)", _Page, about),
            (r"/([^/]+)/marks", _Marks, about),
            (r"/([^/]+)/comments", _Comments, about),
            (r"/([^/]+)/(mark\.css|mark\.js)", _File, about),
        ]
        return web.Application(
            handlers,
            default_handler_class=_NotFound,
            log_function=lambda _: None,  # Log no requests, because their addresses contain the token.
            xsrf_cookies=True,
            xsrf_cookie_name="course_mark_xsrf",  # JupyterLab at another port would replace "_xsrf".
            xsrf_cookie_kwargs={"path": f"{self.base}/", "httponly": True, "samesite": "Strict"},
        )

    @cached_property
    def environment(self) -> Environment:
        """The Jinja environment with the templates of the page."""
        environment = templates(Path(__file__).parent)
        environment.filters |= {
            "markdown": lambda text: Markup(markdown_to_html(text)),
            "inline_markdown": _inline,
            "number": "{:.12g}".format,
            "state": _state,
        }
        environment.globals |= {"differing_words": differing_words, "points": _points, "written": _written}
        return environment

    def question(self, notebook: str, name: str) -> Question:
        """Return the question with this name in a notebook. Raises HTTPError if there is no such question."""
        for question in self.answers.questions:
            if (question.notebook, question.name) == (notebook, name):
                return question
        raise web.HTTPError(404, reason="The lesson has no such question")

    def address(self, question: Question) -> str:
        """Return the path of a question's page."""
        return f"{self.base}/questions/{question.notebook}/{question.name}"


class _Handler(web.RequestHandler):
    """A handler that only accepts requests to a local host name with the secret token in the path.

    It answers other requests with status 403, and sets restrictive security headers.
    """

    def initialize(self, server: MarkingServer) -> None:
        self.server = server

    def set_default_headers(self) -> None:
        self.set_header("Content-Security-Policy", POLICY)
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("Cache-Control", "no-store")
        self.set_header("Cross-Origin-Opener-Policy", "same-origin")
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")
        self.clear_header("Server")

    def prepare(self) -> None:
        if self.request.host_name not in _HOSTS:
            raise web.HTTPError(403, reason="Open this page on the machine that runs course mark")
        if not hmac.compare_digest(self.path_args[0].encode(), self.server.token.encode()):
            raise web.HTTPError(403, reason="Open the whole address that course mark printed")

    def write_error(self, status_code: int, **options: Any) -> None:
        error = options.get("exc_info", (None, None))[1]
        is_known = isinstance(error, CourseError | SQLAlchemyError)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{status_code}: {error if is_known else self._reason}\n")

    def log_exception(self, *about: Any) -> None:
        if not isinstance(about[1], web.HTTPError):
            _log.error("A request from the marking page failed", exc_info=about[1])

    def refuse(self, status: int, message: str) -> None:
        """Finish the request with an error status and a message for the grader."""
        self.set_status(status)
        self.finish({"message": message})


class _NotFound(web.RequestHandler):
    def prepare(self) -> None:
        self.set_status(404)
        self.finish("404: Open the whole address that course mark printed\n")


class _Start(_Handler):
    def get(self, _: str) -> None:
        """Redirect to the first question with unmarked answers, or to the first one if all are marked."""
        counts = self.server.answers.open_counts()
        waiting = [question for question, (count, _) in counts.items() if count]
        self.redirect(self.server.address((waiting or list(counts))[0]))


class _File(_Handler):
    def get(self, _: str, name: str) -> None:
        kind = "css" if name.endswith(".css") else "javascript"
        self.set_header("Content-Type", f"text/{kind}; charset=utf-8")
        self.finish(Path(__file__).with_name(name).read_bytes())


class _Page(_Handler):
    async def get(self, _: str, notebook: str, name: str) -> None:
        """Show one page of the answers to a question: the unmarked ones or, with `show=all`, all of them.

        The page starts after the answer with the id `after`, if that is given. With `names=1`, it shows the
        students' names.
        """
        server = self.server
        question = server.question(notebook, name)
        only_open = self.get_query_argument("show", "unmarked") != "all"
        names = self.get_query_argument("names", "") == "1"
        # Compare the answers in a thread, so that marks can be saved in the meantime.
        groups = await asyncio.to_thread(grouped, server.answers.answers(question))
        shown = [
            (group, card)
            for group in groups
            for card in group.cards
            if not only_open or any(answer.mark.waiting for answer in card.answers)
        ]
        start = _start(groups, shown, self.get_query_argument("after", ""))
        end = start + PAGE
        try:
            bank, problem = server.bank.comments(question), ""
        except CommentError as error:
            bank, problem = server.bank.provided(question), str(error)
        self.finish(
            server.environment.get_template("page.html.j2").render(
                server=server,
                lesson=server.answers.lesson,
                question=question,
                counts=server.answers.open_counts(),
                pages=[
                    (group, [card for _, card in cards])
                    for group, cards in groupby(shown[start:end], key=itemgetter(0))
                ],
                number={answer.id: number for number, answer in enumerate(_in_order(groups), start=1)},
                total=len(shown),
                start=start,
                end=min(end, len(shown)),
                next=shown[end - 1][1].first.id if end < len(shown) else "",
                only_open=only_open,
                names=names,
                bank=bank,
                bank_problem=problem,
                xsrf=self.xsrf_token.decode(),
                max_comment=_MAX_COMMENT,
            )
        )


class _Marks(_Handler):
    def post(self, _: str) -> None:
        """Save points and a comment for some answers, unless the answers or their marks have changed.

        Reply with the new state of the answers. If some have changed, reply with status 409 and their current
        state. Reply to other errors with a message.
        """
        try:
            request = MarkRequest.model_validate_json(self.request.body)
        except ValidationError as error:
            return self.refuse(400, f"The request is not valid: {error.errors()[0]['msg']}.")
        question = self.server.question(request.notebook, request.question)
        if len(request.comment) > _MAX_COMMENT:
            return self.refuse(400, f"A comment can have at most {_MAX_COMMENT} characters.")
        try:
            saved = self.server.answers.save(question, request.versions, request.points, request.comment)
        except ChangedError as error:
            self.set_status(409)
            return self._reply(error.changed, question)
        except CourseError as error:
            return self.refuse(503, f"Nothing was saved: {error}")
        except ValueError as error:
            return self.refuse(400, str(error))
        except SQLAlchemyError as error:
            cause = getattr(error, "orig", error)
            return self.refuse(503, f"Nothing was saved. The gradebook cannot be written: {cause}.")
        return self._reply(saved, question)

    def _reply(self, answers: Iterable[Answer], question: Question) -> None:
        self.finish({"answers": [_state(answer, question) for answer in answers]})


class _Comments(_Handler):
    def post(self, _: str) -> None:
        """Save a comment for later use."""
        try:
            request = CommentRequest.model_validate_json(self.request.body)
            question = self.server.question(request.notebook, request.question)
            self.server.bank.save(question, request.key, request.text)
        except ValidationError as error:
            return self.refuse(400, f"The request is not valid: {error.errors()[0]['msg']}.")
        except CommentError as error:
            return self.refuse(400, str(error))
        except OSError as error:
            return self.refuse(503, f"The comment was not saved: {error}.")
        return self.finish({"key": request.key, "text": request.text})  # type: ignore[return-value]


def _state(answer: Answer, question: Question) -> dict[str, object]:
    """Return the data about an answer and its mark that the page's script needs."""
    mark = answer.mark
    if mark.waiting:
        state = "unmarked" if mark.points is None else f"earlier mark: {_points(mark.points)}; mark it again"
    elif mark.points is not None:
        state = f"{mark.points:g} of {_points(question.max_points)}"
    else:
        state = f"no answer: {_points(mark.automatic or 0)}"
    return {
        "id": answer.id,
        "version": answer.version,
        "points": mark.points,
        "comment": mark.comment,
        "waiting": mark.waiting,
        "state": state,
    }


def _points(value: float) -> str:
    return f"{value:g} point{'s' * (value != 1)}"


def _in_order(groups: Iterable[Group]) -> Iterable[Answer]:
    return (answer for group in groups for card in group.cards for answer in card.answers)


def _start(groups: Iterable[Group], shown: list[tuple[Group, Card]], after: str) -> int:
    """Return the index of the first shown card after the answer with the id `after`.

    That answer itself may no longer be shown. The index is 0 if no answer has this id.
    """
    ids = [answer.id for answer in _in_order(groups)]
    before = set(ids[: ids.index(after) + 1]) if after in ids else set()
    return sum(card.first.id in before for _, card in shown)


def _written(written: WrittenCell) -> Markup:
    """Render an answer as HTML in which no scripts can run: see `autograder.graded_notebooks.safe_html`.

    A very long answer is truncated.
    """
    source = written.source[:_SHOWN]
    if written.problem:
        page = Markup('<p class="note">{}</p>').format(written.problem)
    elif not source.strip() and not written.attachments:
        page = Markup('<p class="quiet">(empty)</p>')
    elif written.is_code:
        page = Markup("<pre>{}</pre>").format(source)
    else:
        try:
            page = Markup(markdown_to_html(source, written.attachments or {}))
        except RecursionError:
            page = Markup("<pre>{}</pre>").format(source)
    if len(written.source) > _SHOWN:
        page += Markup(
            '<p class="note">The answer has {:,} characters; the first {:,} are shown.</p>'
        ).format(len(written.source), _SHOWN)
    return page


def _inline(text: str) -> Markup:
    return Markup(markdown_to_html(text).strip().removeprefix("<p>").removesuffix("</p>"))
