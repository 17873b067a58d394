"""Code that reads, changes, contacts or ends things that belong to others."""

from tests.autograder.hostile.threat import FIRST, Threat

THREATS = (
    # --- Reading --------------------------------------------------------------------------------------------
    Threat(
        "reads-the-course",
        "reads the sources, the manifest and the solutions of the course",
        """\
attempt("list the course", lambda: os.listdir(COURSE))
for name in ("canary.txt", "solutions/private.txt", "solutions/course.toml", "autograder/nbgrader_config.py",
             f"solutions/{LESSON}/{LESSON}.py", f"solutions/{LESSON}/{LESSON}.ipynb"):
    attempt(f"read {name}", lambda: Path(COURSE, name).read_text())
look("climb to it", lambda: [path.read_text() for up in (".", *[("../" * n) for n in range(1, 9)])
                             for path in Path(up).glob("solutions/*") if path.is_file()])
""",
        confined=True,
    ),
    Threat(
        "reads-the-gradebook",
        "reads the gradebook, which holds names and hidden tests",
        """\
def rows(path):
    with sqlite3.connect(path) as gradebook:
        tables = [name for name, in gradebook.execute("select name from sqlite_master where type = 'table'")]
        assert tables, "no table"
        return {table: gradebook.execute(f"select * from '{table}'").fetchall() for table in tables}
attempt("read the gradebook", lambda: rows(f"{COURSE}/autograder/gradebook.db"))
attempt("read its bytes", lambda: Path(COURSE, "autograder/gradebook.db").read_bytes()[:100])
""",
        confined=True,
    ),
    Threat(
        "reads-other-students",
        "reads what other students handed in, and their graded notebooks",
        """\
for step in ("submitted", "autograded", "feedback"):
    path = Path(COURSE, "autograder", step, NEIGHBOUR, LESSON, f"{LESSON}.ipynb")
    attempt(f"read {step}", lambda: path.read_text())
    attempt(f"list {step}", lambda: os.listdir(Path(COURSE, "autograder", step)))
look("glob", lambda: [Path(name).read_text() for name in
                      glob.glob(f"../../*/{LESSON}/*.ipynb") + glob.glob(f"../*/{LESSON}/*.ipynb")])
""",
        confined=True,
    ),
    Threat(
        "reads-the-hidden-tests",
        "looks for hidden tests in its own memory, and in whatever the notebook knows",
        r"""
def own_memory():
    found = set()
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
        for line in maps:
            span, rights, *_ = line.split()
            start, end = (int(part, 16) for part in span.split("-"))
            if not rights.startswith("rw") or end - start > 2**28:
                continue
            try:
                memory.seek(start)
                text = memory.read(end - start)
            except (OSError, ValueError, OverflowError):
                continue
            found.update(re.findall(rb"grading\(points=[0-9.]+, seed=[0-9]+", text))
    return found
look("memory", own_memory)
look("objects", lambda: [str(item)[:1000] for item in gc.get_objects()
                         if type(item).__name__ in ("Grading", "Lesson", "Misconception")])
look("input history", lambda: [*get_ipython().history_manager.get_range(raw=True)])
look("cells", lambda: get_ipython().user_ns.get("In"))
look("the next grading", lambda: sys.modules["course_lib.checks.notebook"]._next_grading)
""",
        cells={
            # When the check calls the function, the function searches the memory for the check's data.
            "attention_weights": r"""
calls = []
def attention_weights(scores, mask=None):
    frame, seen = sys._getframe(), []
    while frame:
        seen.append(str({**frame.f_locals})[:3000])
        frame = frame.f_back
    look("frames", lambda: seen)
    calls.append(scores)
    if len(calls) <= 3:  # Searching the memory takes a second.
        look("memory when judged", own_memory)
    if mask is None:
        return scores.softmax(dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(dim=-1).masked_fill(~mask, 0.0)
""",
        },
        confined=True,
    ),
    Threat(
        "reads-the-home-folder",
        "reads keys in the home folder, and the machine's secrets",
        """\
import pwd
for path in (HOME, f"{HOME}/canary.txt", f"{HOME}/.ssh/id_canary", "/etc/shadow", "/root", "/home"):
    look(path, lambda: os.listdir(path) if os.path.isdir(path) else Path(path).read_text())
attempt("read a key", lambda: Path(HOME, ".ssh/id_canary").read_text())
attempt("read hashed passwords", lambda: Path("/etc/shadow").read_text())
""",
        confined=True,
    ),
    Threat(
        "reads-the-temporary-folder",
        "reads what others keep in the temporary folder",
        """\
attempt("read a file", lambda: Path(OUTSIDE, "canary.txt").read_text())
attempt("list a folder", lambda: os.listdir(OUTSIDE))
look("list", lambda: os.listdir("/tmp"))
look("list", lambda: [*Path("/tmp").glob("*/*")])
look("list shared memory", lambda: os.listdir("/dev/shm"))
""",
        confined=True,
    ),
    Threat(
        "reads-the-environment",
        "looks for passwords in environment variables, its own and those of other processes",
        """\
look("its own", lambda: dict(os.environ))
look("at its start", lambda: Path("/proc/self/environ").read_bytes())
libc.getenv.restype = ctypes.c_char_p
look("what C knows", lambda: libc.getenv(PASSWORD.encode()))
for folder in Path("/proc").glob("[0-9]*"):
    look(f"that of {folder.name}", lambda: [line for line in (folder / "environ").read_bytes().split(b"\\0")
                                            if line.startswith((b"COURSE", b"secret"))])
""",
        confined=True,
    ),
    Threat(
        "reads-through-proc",
        "reaches files through other processes' roots, folders and open files",
        """\
found = 0
for folder in [Path("/proc/self"), Path("/proc/1"), *Path("/proc").glob("[0-9]*")]:
    for way in ("root", "cwd", "root/proc/1/root", "task/1/root"):
        for goal in (f"{COURSE}/solutions/private.txt", f"{HOME}/canary.txt"):
            look(f"{folder}/{way}", lambda: (folder / way / goal.lstrip("/")).read_text())
    try:
        opened = [*(folder / "fd").iterdir()]
    except OSError:
        continue
    for descriptor in opened:
        try:
            goal = os.readlink(descriptor)
        except OSError:
            continue
        if goal.endswith((".db", ".ipynb", ".toml", ".txt", ".py")):
            look(goal, lambda: descriptor.read_bytes())
        elif goal.startswith("/") and os.path.isdir(descriptor):
            look(goal, lambda: (descriptor / f"../../{COURSE}/solutions/private.txt").read_text())
""",
        confined=True,
    ),
    Threat(
        "reads-devices",
        "reads the disk and the machine's memory through devices",
        """\
def head(device):
    with open(device, "rb", buffering=0) as file:
        return len(file.read(16))
disks = [name for name in glob.glob("/dev/[shv]d[a-z]") + glob.glob("/dev/nvme*n1") + glob.glob("/dev/dm-*")]
for device in (*disks, "/dev/mem", "/dev/kmsg", "/proc/kcore"):
    attempt(device, lambda: head(device))
def make(number, major, minor):
    os.mknod(f"disk{number}", 0o60600, os.makedev(int(major), int(minor)))
    try:
        return head(f"disk{number}")
    finally:
        os.remove(f"disk{number}")
partitions = []
def read_partitions():
    partitions.extend(line.split() for line in open("/proc/partitions").readlines()[2:])
look("partitions", read_partitions)
for number, (major, minor, *_) in enumerate(partitions or [(254, 0), (8, 0), (259, 0)]):
    attempt(f"make a device {major}:{minor}", lambda: make(number, major, minor))
""",
        confined=True,
    ),
    # --- Writing --------------------------------------------------------------------------------------------
    Threat(
        "deletes-outside",
        "deletes files of the course, of the home folder and of others",
        """\
for path in (f"{COURSE}/canary.txt", f"{COURSE}/solutions/private.txt", f"{HOME}/canary.txt",
             f"{OUTSIDE}/canary.txt"):
    attempt(f"delete {path}", lambda: os.remove(path))
attempt("delete a folder", lambda: shutil.rmtree(f"{OUTSIDE}/folder"))
attempt("move a folder", lambda: os.rename(f"{HOME}/.ssh", f"{HOME}/.moved"))
""",
        confined=True,
    ),
    Threat(
        "writes-outside",
        "writes into the course, into others' work, into the home folder and into the installed packages",
        """\
import torch
import course_lib
def write(path):
    with open(path, "a") as file:
        file.write("written by an attack")
for path in (f"{COURSE}/canary.txt", f"{COURSE}/new.txt", f"{COURSE}/solutions/private.txt",
             f"{COURSE}/autograder/nbgrader_config.py", f"{COURSE}/autograder/sitecustomize.py",
             f"{COURSE}/autograder/submitted/{NEIGHBOUR}/{LESSON}/{LESSON}.ipynb",
             f"{COURSE}/autograder/autograded/{NEIGHBOUR}/{LESSON}/{LESSON}.ipynb",
             f"{HOME}/canary.txt", f"{HOME}/.bashrc", f"{OUTSIDE}/canary.txt", f"{OUTSIDE}/new.txt",
             Path(torch.__file__).parent / f"{MARK}.txt", Path(course_lib.__file__).parent / f"{MARK}.txt"):
    attempt(f"write {path}", lambda: write(path))
attempt("write by a link", lambda: (os.symlink(f"{OUTSIDE}/canary.txt", "link"), write("link")))
attempt("write by a hard link", lambda: (os.link(f"{OUTSIDE}/canary.txt", "hard"), write("hard")))
attempt("cut a file", lambda: os.truncate(f"{OUTSIDE}/canary.txt", 0))
attempt("change rights", lambda: os.chmod(f"{OUTSIDE}/canary.txt", 0o777))
attempt("change times", lambda: os.utime(f"{OUTSIDE}/canary.txt", (0, 0)))
attempt("make a folder", lambda: os.mkdir(f"{OUTSIDE}/made"))
attempt("make a link", lambda: os.symlink("/", f"{OUTSIDE}/linked"))
""",
        confined=True,
    ),
    Threat(
        "writes-the-gradebook",
        "gives itself the highest points in the gradebook",
        """\
def write():
    with sqlite3.connect(f"{COURSE}/autograder/gradebook.db") as gradebook:
        return gradebook.execute("update grade set manual_score = 99, auto_score = 99").rowcount
attempt("update grades", write)
""",
        answers="blank",
        confined=True,
    ),
    Threat(
        "leaves-links",
        "leaves links to other folders, which tidying up must not follow",
        """\
os.symlink(f"{OUTSIDE}/folder", "a-folder")
os.symlink(f"{COURSE}/solutions", "solutions")
os.symlink(HOME, "data-of-mine")
os.makedirs("no/rights")
for path, rights in (("no", 0), (".", 0o500)):
    look(f"change the rights of {path}", lambda: os.chmod(path, rights))
""",
    ),
    Threat(
        "leaves-folders-that-cannot-be-removed",
        "leaves a folder that nobody may list, and one in thousands of others",
        """\
os.mkdir("unlisted", 0)
start = os.open(".", os.O_RDONLY)
for _ in range(3000):
    os.mkdir("deeper")
    os.chdir("deeper")
os.fchdir(start)
""",
    ),
    Threat(
        "leaves-code-for-the-next",
        "leaves code where the next student's kernel would find it",
        """\
def write(path):
    path = Path(path).expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("raise SystemExit('left by an attack')")
import site
for path in ("~/.ipython/profile_default/startup/00-left.py", "~/.local/lib/python3/site-packages/left.pth",
             f"/tmp/{MARK}.txt", f"/dev/shm/{MARK}.txt", "../torch.py", "../ipython_config.py"):
    look(f"write {path}", lambda: write(path))
attempt("write in the packages", lambda: write(f"{site.getsitepackages()[0]}/{MARK}.txt"))
""",
        confined=True,
    ),
    # --- The network ----------------------------------------------------------------------------------------
    Threat(
        "network",
        "connects to servers by TCP and UDP: directly, in a thread, in another process, by system calls",
        """\
def by_tcp():
    with socket.create_connection(("127.0.0.1", TCP), timeout=2) as connection:
        connection.sendall(b"stolen")
def by_tcp6():
    with socket.create_connection(("::1", TCP6), timeout=2) as connection:
        connection.sendall(b"stolen")
def by_udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        assert sender.sendto(b"stolen", ("127.0.0.1", UDP))
        time.sleep(0.1)
        # Sending can succeed although nothing arrives, so the test's server reports what it receives.
        raise ConnectionError("sent into the void, perhaps")
def past_python():
    descriptor = system_call(41, socket.AF_INET, socket.SOCK_DGRAM, 0)
    address = struct.pack("=HH4s8x", socket.AF_INET, socket.htons(UDP), b"\\x7f\\0\\0\\1")
    assert system_call(44, descriptor, b"stolen", 6, 0, address, 16) == 6
    raise ConnectionError("sent into the void, perhaps")
def in_a_thread():
    outcome = []
    def run():
        try: outcome.append(by_tcp())
        except OSError as error: outcome.append(error)
    thread = threading.Thread(target=run)
    thread.start(); thread.join()
    if outcome[0]: raise outcome[0]
def in_a_process():
    code = f"import socket; socket.create_connection(('127.0.0.1', {TCP}), timeout=2).sendall(b'stolen')"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=4)
for action in (by_tcp, by_tcp6, by_udp, past_python, in_a_thread, in_a_process):
    attempt(action.__name__, action)
""",
        confined=True,
    ),
    Threat(
        "serves-the-network",
        "waits for others to connect",
        """\
def serve(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.bind(address)
        server.listen()
        raise ConnectionError("waits, but nobody can connect")
look("TCP", lambda: serve(socket.AF_INET, ("0.0.0.0", 0)))
look("a unix socket", lambda: serve(socket.AF_UNIX, f"{OUTSIDE}/served"))
""",
        confined=True,
    ),
    Threat(
        "unix-sockets",
        "connects to servers on this machine through unix sockets",
        """\
for address in (SOCKET, ABSTRACT):
    def connect():
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(address)
            connection.sendall(b"stolen")
    attempt(f"connect to {address!r}", connect)
for path in ("/run/docker.sock", "/var/run/dbus/system_bus_socket", "/run/systemd/private"):
    def connect():
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
    attempt(f"connect to {path}", connect)
""",
        confined=True,
    ),
    Threat(
        "other-sockets",
        "opens kinds of sockets that reach the kernel or the host",
        """\
for name, family, kind in (("packet", 17, 3), ("raw", 2, 3), ("vsock", 40, 1), ("alg", 38, 5),
                           ("bluetooth", 31, 3), ("netlink", 16, 3), ("tipc", 30, 1)):
    attempt(name, lambda: socket.socket(family, kind))
""",
        confined=True,
    ),
    # --- Processes ------------------------------------------------------------------------------------------
    Threat(
        "lists-processes",
        "reads other processes' command lines and memory",
        """\
others = [folder for folder in Path("/proc").glob("[0-9]*") if int(folder.name) != os.getpid()]
for folder in others:
    look(f"{folder.name}", lambda: (folder / "cmdline").read_bytes())
for pid in {os.getppid(), 1, VICTIM}:
    attempt(f"open the memory of {pid}", lambda: open(f"/proc/{pid}/mem", "r+b"))
    attempt(f"read the variables of {pid}", lambda: Path(f"/proc/{pid}/environ").read_bytes())
""",
        confined=True,
    ),
    Threat(
        "signals-others",
        "sends signals to its parent, to all processes, and to an unrelated process",
        """\
# Signals that a process ignores by default.
for who in (os.getppid(), VICTIM, -1):
    for number in (0, signal.SIGURG, signal.SIGWINCH):
        attempt(f"send {number} to {who}", lambda: os.kill(who, number))
attempt("by tgkill", lambda: system_call(234, VICTIM, VICTIM, signal.SIGUSR1))
attempt("by its handle", lambda: signal.pidfd_send_signal(os.pidfd_open(VICTIM), signal.SIGUSR1))
attempt("by its queue", lambda: libc.sigqueue(VICTIM, signal.SIGUSR1, 0) and 1 / 0)
attempt("by an owner of a file", lambda: owner())
def owner():
    import fcntl
    ours, theirs = os.pipe()
    fcntl.fcntl(ours, fcntl.F_SETOWN, VICTIM)
    fcntl.fcntl(ours, 10, signal.SIGUSR2)
    fcntl.fcntl(ours, fcntl.F_SETFL, os.O_ASYNC)
    os.write(theirs, b"x")
    time.sleep(0.1)
look("by an owner of a file", owner)
""",
        confined=True,
    ),
    Threat(
        "kills-its-parent",
        "kills the process that started it, and all of its group",
        """\
attempt("kill the parent", lambda: os.kill(os.getppid(), signal.SIGKILL))
attempt("kill the parent by its handle", lambda: system_call(424, os.pidfd_open(os.getppid()), 9, 0, 0))
if os.getpgid(0) != os.getpgid(os.getppid()):
    attempt("kill the parent's group", lambda: os.killpg(os.getpgid(os.getppid()), signal.SIGKILL))
""",
        confined=True,
    ),
    Threat(
        "traces-its-parent",
        "reads and writes its parent's memory, and takes its open files",
        """\
libc.ptrace.argtypes = [ctypes.c_long] * 4
def trace(who):
    if libc.ptrace(16, who, 0, 0) == -1:
        raise OSError(ctypes.get_errno(), "not traced")
    libc.ptrace(17, who, 0, 0)
def peek(who):
    # A vector is an address and a length. The kernel checks the permission before it reads.
    vector = struct.pack("=QQ", ctypes.addressof(ctypes.create_string_buffer(8)), 8)
    return system_call(310, who, vector, 1, vector, 1, 0)
def poke(who):
    vector = struct.pack("=QQ", 8, 8)
    if libc.process_vm_writev(who, vector, 1, vector, 1, 0) == -1 and ctypes.get_errno() in (1, 3, 38):
        raise OSError(ctypes.get_errno(), "not written")
for who in (os.getppid(), VICTIM):
    attempt(f"trace {who}", lambda: trace(who))
    attempt(f"write to {who}", lambda: poke(who))
    attempt(f"take a file of {who}", lambda: system_call(438, system_call(434, who, 0), 1, 0))
""",
        confined=True,
    ),
    Threat(
        "stays-behind",
        "leaves orphaned processes that ignore the signals to end",
        """\
def stay():
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    named_process()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGURG):
        signal.signal(number, signal.SIG_IGN)
    os.closerange(0, 4096)
    time.sleep(300)
    os._exit(0)
for _ in range(5): stay()
command = ["sleep", f"300.{int(MARK[2:], 16)}"]
look("another program", lambda: subprocess.Popen(command, start_new_session=True).pid)
time.sleep(0.3)
""",
        confined=True,
    ),
    Threat(
        "comes-back-again",
        "leaves a process that replaces itself with a fork every few milliseconds, for a minute",
        """\
def run_away():
    if os.fork():
        return
    os.setsid()
    named_process()
    os.closerange(0, 4096)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            if os.fork():
                os._exit(0)
        except OSError:
            pass
        time.sleep(0.005)
    os._exit(0)
run_away()
time.sleep(0.3)
""",
        confined=True,
    ),
    # --- Ways out -------------------------------------------------------------------------------------------
    Threat(
        "changes-its-world",
        "asks for other namespaces, mounts, roots and users",
        """\
for name, flag in (("users", 0x10000000), ("mounts", 0x20000), ("processes", 0x20000000),
                   ("network", 0x40000000), ("messages", 0x08000000)):
    attempt(f"other {name}", lambda: system_call(272, flag))
    def clone():
        child = system_call(56, flag | signal.SIGCHLD, 0, 0, 0, 0)
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    attempt(f"a process with other {name}", clone)
attempt("enter another's", lambda: system_call(308, os.open("/proc/1/ns/net", os.O_RDONLY), 0))
os.makedirs("mounted", exist_ok=True)
attempt("mount", lambda: system_call(165, b"tmpfs", b"mounted", b"tmpfs", 0, 0))
attempt("unmount", lambda: system_call(166, b"/proc", 2))
attempt("another root", lambda: (os.chroot("mounted"), os.listdir("/")))
look("another user", lambda: os.setuid(0))
attempt("the machine's name", lambda: socket.sethostname(socket.gethostname()))
""",
        confined=True,
    ),
    Threat(
        "asks-the-kernel",
        "makes system calls that have often been used to escape",
        """\
buffer = ctypes.create_string_buffer
a_map = buffer(struct.pack("=IIII", 2, 4, 4, 1) + bytes(56))
attempt("bpf", lambda: system_call(321, 0, a_map, 72))
attempt("userfaultfd", lambda: system_call(323, 0))
event = buffer(struct.pack("=IIQ", 1, 112, 0) + bytes(96))
attempt("perf_event_open", lambda: system_call(298, event, 0, -1, -1, 0))
attempt("io_uring", lambda: system_call(425, 4, ctypes.create_string_buffer(120)))
attempt("keys", lambda: system_call(250, 0, -3, 1))
attempt("add a key", lambda: system_call(248, b"user", b"hostile", b"x", 1, -3))
handle = buffer(struct.pack("=Ii", 8, 1) + bytes(8))
attempt("open by handle", lambda: system_call(304, os.open("/", os.O_RDONLY), handle, 0))
attempt("the kernel's log", lambda: system_call(103, 3, ctypes.create_string_buffer(64), 64))
attempt("the time", lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()))
attempt("priority", lambda: os.nice(-5))
attempt("typing into a terminal", lambda: typing())
def typing():
    import fcntl
    with open("/dev/tty", "wb") as terminal:
        fcntl.ioctl(terminal, 0x5412, b"x")
""",
        confined=True,
    ),
    # --- Inherited files and sockets ------------------------------------------------------------------------
    Threat(
        "writes-to-all-that-is-open",
        "writes rubbish to every file and socket that it inherited",
        """\
import stat
for name in os.listdir("/proc/self/fd"):
    descriptor = int(name)
    try:
        mode = os.fstat(descriptor).st_mode
        if descriptor > 2 and (stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode) or stat.S_ISREG(mode)):
            os.set_blocking(descriptor, False)
            for _ in range(3):
                os.write(descriptor, b"\\xff\\xff\\xff\\x7f{rubbish" * 1000)
    except OSError:
        pass
""",
        lost=(FIRST,),
        confined=True,
    ),
    Threat(
        "closes-all-that-is-open",
        "closes every file and socket that it inherited",
        "os.closerange(3, 4096)",
        lost=(FIRST,),
        confined=True,
    ),
    Threat(
        "changes-the-surroundings",
        "changes folder, limits, rights of new files, language, threads, dtypes, seeds and search paths",
        """\
import decimal, locale, random, resource, warnings
import torch
os.chdir("/")
os.umask(0o777)
for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_STACK):
    soft, hard = resource.getrlimit(limit)
    look("lower a limit", lambda: resource.setrlimit(limit, (min(256, hard) if hard > 0 else 256, hard)))
for limit in (resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU):
    look("raise a limit", lambda: resource.setrlimit(limit, (resource.RLIM_INFINITY,) * 2))
look("language", lambda: locale.setlocale(locale.LC_ALL, "C"))
torch.set_default_dtype(torch.float64)
torch.set_num_threads(7)
torch.use_deterministic_algorithms(True)
torch.manual_seed(13)
torch.set_printoptions(precision=1)
random.seed(13)
decimal.getcontext().prec = 1
warnings.simplefilter("error")
gc.disable()
sys.setswitchinterval(10)
sys.path.clear()
os.environ.clear()
sys.stdout.flush()
time.sleep = lambda seconds: None
""",
    ),
)
