"""A replacement for a kernel: run cells with a lesson's view, as a notebook does, and serve what they define.

`python -I served_cells.py VIEW CELLS SOCKET`: the view's folder, a JSON file, and the number of a socket.
"""

import json
import socket
import sys
from pathlib import Path

if __name__ == "__main__":
    view, cells, number = sys.argv[1:]
    sys.path.insert(0, view)
    import course_lib

    assert Path(course_lib.__file__).parents[1] == Path(view), course_lib.__file__
    from course_lib.checks.remote.server import serve

    asked = json.loads(Path(cells).read_text(encoding="utf-8"))
    notebook: dict[str, object] = {"__name__": "__main__"}
    exec(asked["setup"], notebook)
    for source in asked["solutions"]:
        exec(source, notebook)
    served: dict[str, object] = dict(notebook)
    for called, (name, source) in asked["others"].items():
        elsewhere = dict(notebook)
        exec(source, elsewhere)
        served[called] = elsewhere[name]
    serve(socket.socket(fileno=int(number)), served)
