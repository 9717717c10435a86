"""Attacks on files, networks and other processes; see attacks.py for the marks."""

READING = {
    "reads a file": "def f(x): return open('SECRET').read()",
    "climbs out of its folder": "def f(x): return open('../' * 20 + 'SECRET'.lstrip('/')).read()",
    "follows a symlink": """
import os
os.symlink('SECRET', 'innocent')
def f(x): return open('innocent').read()""",
    "makes a hard link": """
import os
os.link('SECRET', 'mine')
def f(x): return open('mine').read()""",
    "reads through the parent's root": "def f(x): return open('/proc/PARENT/rootSECRET').read()",
    "reads the parent's environment": "def f(x): return open('/proc/PARENT/environ').read()",
    "reads its own environment": """
import os
def f(x): return str(dict(os.environ)) + open('/proc/self/environ').read()""",
    "reads the parent's memory": """
def f(x):
    maps = open('/proc/PARENT/maps').read()
    return open('/proc/PARENT/mem', 'rb').read(10) + maps.encode()""",
    "reads another process's memory by a call": """
import ctypes
def f(x):
    buffer = ctypes.create_string_buffer(64)
    local = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 64)
    far = (ctypes.c_void_p * 2)(id(0), 64)
    for pid in (PARENT, 1):
        if ctypes.CDLL(None).process_vm_readv(pid, local, 1, far, 1, 0) > 0 and pid != 1:
            return 'MARKER'""",
    "traces the parent": """
import ctypes
def f(x):
    return 'MARKER' if ctypes.CDLL(None).ptrace(16, PARENT, 0, 0) == 0 else ''""",
    "walks subclasses to an opener": """
def f(x):
    for c in ().__class__.__base__.__subclasses__():
        if c.__name__ == '_wrap_close':
            return c.__init__.__globals__['popen']('cat SECRET').read()
        if c.__name__ == 'FileIO':
            return c('SECRET').read()""",
    "unpickles a command": """
import pickle, os
class P:
    def __reduce__(self): return (os.system, ('cat SECRET > TARGET',))
def f(x): return pickle.loads(pickle.dumps(P()))""",
    "returns an object to be unpickled": """
import os
class P:
    def __reduce__(self): return (os.system, ('touch TARGET',))
def f(x): return P()""",
    "maps a file into memory": """
import mmap, os
def f(x): return mmap.mmap(os.open('SECRET', os.O_RDONLY), 0, prot=mmap.PROT_READ)[:]""",
    "looks for open descriptors": """
import os
def f(x):
    found = []
    for fd in range(3, 256):
        try:
            os.lseek(fd, 0, 0)
            found.append(os.read(fd, 1000))
        except OSError:
            pass
    return b''.join(found) + b'MARKER' * (len(found) > 0)""",
    "imports the project": """
import sys
sys.path.append('PROJECT')
from tests.srl_envs.sandbox import attacks
def f(x): return 'MARKER'""",
    "reads what is installed beside the library": """
import os, sys
def f(x):
    for place in [os.path.dirname(os.__file__), '/usr/lib/python3', '/usr/local/lib', 'SITE']:
        for name in ('', 'site-packages', 'dist-packages'):
            for path, _, files in os.walk(os.path.join(place, name)):
                for file in files:
                    if '-packages' in path:
                        return open(os.path.join(path, file), 'rb').read(0) + b'MARKER'""",
    "imports what is installed beside the library": """
import os, sys
sys.path += ['SITE', os.path.join(os.path.dirname(os.__file__), 'site-packages')]
import pip
def f(x): return 'MARKER'""",
    "reads a file beside the shared libraries": """
import glob
def f(x):
    for name in ('/usr/lib/os-release', '/lib/os-release', *glob.glob('/usr/lib/*/perl*/*')):
        try: return open(name, 'rb').read(0) + b'MARKER'
        except OSError: pass""",
    "finds out where the package lies": """
import sys
def f(x):
    said = [sys.argv, sys.orig_argv, sys.path, sys.executable, sys.prefix, sys._base_executable]
    said += [getattr(m, '__file__', '') for m in sys.modules.values()]
    said += [getattr(m, '__path__', '') for m in sys.modules.values()]
    frame = sys._getframe()
    while frame:
        said.append(frame.f_code.co_filename)
        frame = frame.f_back
    return 'MARKER' * ('PROJECT' in repr(said))""",
    "asks for the host's name": """
import ctypes, os, platform, socket
def f(x):
    name = ctypes.create_string_buffer(400)
    ctypes.CDLL(None).uname(name)
    said = [name.raw[65:130].rstrip(b'\\0').decode()]
    for ask in (lambda: os.uname().nodename, socket.gethostname, platform.node):
        try: said.append(ask())
        except Exception: pass
    return 'MARKER' * ('HOST' in said)""",
    "asks where links lead": """
import os
def f(x):
    for link in ('/proc/self/exe', '/proc/PARENT/cwd', '/etc/mtab', '/etc/localtime', '/bin'):
        try: return os.readlink(link) + 'MARKER'
        except OSError: pass""",
    "asks how full the disk is": """
import os
def f(x): return os.statvfs(os.__file__) and 'MARKER'""",
    "asks for the parent's locks": """
import ctypes
def f(x):
    head, size = ctypes.c_void_p(), ctypes.c_size_t()
    asked = ctypes.CDLL(None).syscall(274, PARENT, ctypes.byref(head), ctypes.byref(size))
    return 'MARKER' * (asked == 0)""",
    "reads the parent's clock": """
import time
def f(x): return time.clock_gettime(~PARENT << 3 | 2) and 'MARKER'""",
    "asks for the parent's privileges": """
import ctypes, struct
def f(x):
    header = struct.pack('=Ii', 0x20080522, PARENT)
    return 'MARKER' * (ctypes.CDLL(None).capget(header, ctypes.create_string_buffer(24)) == 0)""",
    "asks about the parent": """
import os
def f(x):
    for ask in (os.getsid, os.getpgid, os.sched_getaffinity, os.sched_getscheduler,
                lambda pid: os.getpriority(os.PRIO_PROCESS, pid)):
        try: return [ask(PARENT), 'MARKER']
        except OSError: pass""",
}

WRITING = {
    "writes a file": "def f(x): open('TARGET', 'w').write('x')",
    "writes into the common folders": """
def f(x):
    for folder in ('/tmp', '/var/tmp', '/dev/shm', '/run', '/', 'HOME'):
        try:
            open(folder + '/TOKEN', 'w').close()
        except OSError:
            pass""",
    "makes a named pipe": "import os\ndef f(x): os.mkfifo('TARGET')",
    "makes a device": "import os\ndef f(x): os.mknod('TARGET', 0o20666, os.makedev(1, 3))",
    "removes a file": "import os\ndef f(x): os.unlink('SECRET')",
    "truncates a file": "import os\ndef f(x): os.truncate('SECRET', 0)",
    "changes a file's times": "import os\ndef f(x): os.utime('SECRET', (0, 0))",
    "changes the interpreter's library": """
import os, json
def f(x): open(os.path.join(os.path.dirname(json.__file__), 'TOKEN.py'), 'w').write('x')""",
    "writes through C": """
import ctypes
def f(x): ctypes.CDLL(None).creat(b'TARGET', 0o666)""",
    "escapes from its root": """
import os
def f(x):
    os.mkdir('jail')
    os.chroot('jail')
    os.chdir('../' * 30)
    os.chroot('.')
    open('TARGET', 'w').close()""",
    "mounts": """
import ctypes
def f(x):
    libc = ctypes.CDLL(None)
    libc.unshare(0x10000000 | 0x20000)
    libc.mount(b'proc', b'/work', b'proc', 0, None)
    open('/work/1/rootTARGET', 'w').close()""",
    "loads a library of its own": """
import ctypes, os
def f(x):
    open('lib.so', 'wb').write(b'\\x7fELF')
    os.chmod('lib.so', 0o777)
    os.execv('./lib.so', ['./lib.so'])""",
    "makes a file that runs as its owner": """
import os
def f(x):
    open('TARGET', 'w').close()
    os.chmod('TARGET', 0o4755)""",
    "truncates a file that it opens to read": """
import os
def f(x): os.open('SECRET', os.O_RDONLY | os.O_TRUNC)""",
    "truncates a file by a newer call": """
import ctypes, os, struct
def f(x):
    how = struct.pack('=QQQ', os.O_RDONLY | os.O_TRUNC, 0, 0)
    ctypes.CDLL(None).syscall(437, -100, b'SECRET', how, len(how))""",
    "makes a file without a name": """
import os
def f(x):
    os.open(os.path.dirname('SECRET'), os.O_TMPFILE | os.O_RDWR)
    return 'MARKER'""",
    "opens the library for writing": """
import os, json
def f(x):
    os.open(json.__file__, os.O_RDWR | os.O_APPEND)
    return 'MARKER'""",
    "locks the library": """
import fcntl, os
def f(x):
    with open(os.__file__) as file: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return 'MARKER'""",
    "writes by a ring": """
import ctypes
def f(x):
    made = ctypes.CDLL(None).syscall(425, 4, ctypes.create_string_buffer(120))
    return 'MARKER' * (made >= 0)""",
    "leaves a key": """
import ctypes
def f(x): return 'MARKER' * (ctypes.CDLL(None).syscall(248, b'user', b'TOKEN', b'x', 1, -4) > 0)""",
}

NETWORK = {
    "connects to the parent": """
import socket
def f(x): socket.create_connection(('127.0.0.1', PORT), timeout=0.2).send(b'x')""",
    "sends a datagram": """
import socket
def f(x): socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', UDP))""",
    "connects to an abstract socket": """
import socket
def f(x): socket.socket(socket.AF_UNIX).connect(chr(0) + 'ABSTRACT')""",
    "talks to the machine's host": """
import socket
def f(x):
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    return 'MARKER'""",
    "listens": """
import socket
def f(x):
    socket.socket().listen()
    return 'MARKER'""",
    "opens a netlink socket": """
import socket
def f(x):
    socket.socket(16, 3, 0).bind((0, 0))
    return 'MARKER'""",
    "sends a datagram to a path": """
import socket
def f(x): socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', 'DATAGRAMS')""",
    "sends a datagram to an abstract name": """
import socket
def f(x):
    one = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0]
    one.sendto(b'x', chr(0) + 'ABSTRACT-datagrams')""",
    "connects a pair to another": """
import socket
def f(x):
    one = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0]
    one.connect('DATAGRAMS')
    one.send(b'x')""",
    "gives a pair a name": """
import socket
def f(x):
    socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].bind(chr(0) + 'TOKEN')
    return 'MARKER' * (USER != 0)""",
}

PROCESSES = {
    "signals the parent": "import os, signal\ndef f(x): os.kill(PARENT, signal.SIGUSR1)",
    "signals everyone": "import os, signal\ndef f(x): os.kill(-1, signal.SIGUSR1)",
    "signals the parent's group": "import os, signal\ndef f(x): os.killpg(GROUP, signal.SIGUSR1)",
    "signals by a process descriptor": """
import os, signal
def f(x): signal.pidfd_send_signal(os.pidfd_open(PARENT), signal.SIGUSR1)""",
    "has the kernel signal the parent": """
import fcntl, os, signal
def f(x):
    r, w = os.pipe()
    fcntl.fcntl(r, 8, PARENT)
    fcntl.fcntl(r, 10, signal.SIGUSR1)
    fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC)
    os.write(w, b'x')""",
    "kills its worker": "import os\ndef f(x): os.kill(os.getppid(), 9)",
    "stops its worker": "import os, signal\ndef f(x): os.kill(os.getppid(), signal.SIGSTOP)",
    "lowers the parent's limits": """
import resource
def f(x): resource.prlimit(PARENT, resource.RLIMIT_NOFILE, (3, 3))""",
    "raises its own limits": """
import resource
def f(x):
    resource.setrlimit(resource.RLIMIT_AS, (2**40, 2**40))
    return 'MARKER'""",
    "changes the parent's priority": """
import os
def f(x): os.setpriority(os.PRIO_PROCESS, PARENT, 19)""",
    "runs a command": "import os\ndef f(x): os.system('touch TARGET')",
    "becomes another program": """
import os
def f(x): os.execv('/bin/sh', ['sh', '-c', 'touch TARGET; cat SECRET'])""",
    "bombs with forks": """
import os
def f(x):
    while True:
        os.fork()""",
    "leaves a process behind": """
import os, time
def f(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
    return 'MARKER'""",
    "leaves a thread": """
import threading, time
def f(x):
    threading.Thread(target=time.sleep, args=(600,)).start()
    return 'MARKER'""",
    "makes a process by a raw call": """
import ctypes, os
def f(x):
    made = ctypes.CDLL(None).syscall(56, 17, 0, 0, 0, 0)
    if made == 0: os._exit(0)
    return 'MARKER' * (made > 0)""",
    "has a user namespace made": """
import ctypes
def f(x): return 'MARKER' * (ctypes.CDLL(None).unshare(0x10000000) == 0)""",
    "becomes root": """
import os
def f(x):
    os.setuid(0)
    return 'MARKER' * (USER != 0)""",
}
