"""All threats, grouped by their targets."""

from tests.autograder.hostile.threat import Threat
from tests.autograder.hostile.threats import (
    endings,
    forbidden,
    forgery,
    hunting,
    resources,
    submissions,
    trespass,
)

THREATS: tuple[Threat, ...] = (
    *endings.THREATS,
    *resources.THREATS,
    *trespass.THREATS,
    *forgery.THREATS,
    *hunting.THREATS,
    *forbidden.THREATS,
    *submissions.THREATS,
)
