"""JupyterHub for one course on one machine, with Unix accounts and a Formgrader that all graders share.

Change the five names below. docs/jupyterhub.md lists the other steps.
"""

import os
from pathlib import Path

c = get_config()  # type: ignore[name-defined] # defined by JupyterHub

#: The course's name in `autograder/nbgrader_config.py`. It is also the name of Formgrader's service.
COURSE = "build-the-transformer"
#: A Unix account that nobody logs in to. It owns the course, and Formgrader runs in it.
GRADER = "transformer-grader"
#: A clone of the course that only GRADER can read, because it contains the solutions. `make install` has
#: created its environment, in which grading runs.
COURSE_FOLDER = Path("/srv/build-the-transformer")
#: People who may grade, by their Unix accounts.
PEOPLE_WHO_GRADE = ["instructor"]
#: A free port, which Formgrader uses behind JupyterHub's proxy.
FORMGRADER_PORT = 9999

# JupyterLab's terminals start a login shell, which resets PATH, so that it would not find nbgrader.
TERMINAL = "--ServerApp.terminado_settings=shell_command=['bash']"
c.Spawner.args = [TERMINAL]

# Every person with a password on this machine may log in. JupyterHub checks it with PAM, its default.
c.Authenticator.allow_all = True

# The start page of the lessons, which `course student-config` creates. JupyterHub ignores LabApp.default_url.
c.Spawner.default_url = f"/lab/tree/{COURSE}/start.md"

# Students' code may read the Python packages beside it in the sandbox, so the course must not be one of them.
# The editable environment of the clone has a link to the course in its place.
PROGRAMS = COURSE_FOLDER / ".venv" / "bin"

# The service runs as GRADER and not in a grader's own server, so that several people can grade in one course
# without sharing files between their accounts. Its start page is Formgrader itself, because JupyterLab would
# show it in a frame, which JupyterHub forbids.
c.JupyterHub.services = [
    {
        "name": COURSE,
        "url": f"http://127.0.0.1:{FORMGRADER_PORT}",
        "command": [
            str(PROGRAMS / "jupyterhub-singleuser"),
            f"--ServerApp.root_dir={COURSE_FOLDER}",
            TERMINAL,
        ],
        "user": GRADER,
        "cwd": str(COURSE_FOLDER / "autograder"),
        "environment": {
            "JUPYTERHUB_DEFAULT_URL": "/formgrader",
            "PATH": f"{PROGRAMS}:{os.environ['PATH']}",  # for commands that graders type in a terminal
        },
        "oauth_no_confirm": True,
        "timeout": 120,  # seconds to start, perhaps on a busy machine; otherwise JupyterHub gives up
    }
]
c.JupyterHub.load_groups = {f"formgrade-{COURSE}": {"users": PEOPLE_WHO_GRADE}}
c.JupyterHub.load_roles = [
    {
        "name": f"formgrade-{COURSE}",
        "groups": [f"formgrade-{COURSE}"],
        "scopes": [f"access:services!service={COURSE}", f"read:services!service={COURSE}", "list:services"],
    }
]
