"""Attacks on resources and verdicts; see attacks.py for the marks."""

RESOURCES = {
    "loops": "def f(x):\n    while True: pass",
    "loops while it is loaded": "while True: pass",
    "loops within C": "def f(x): return sum(range(10**18))",
    "computes a huge power": "def f(x): return 9 ** 9 ** 9",
    "sleeps": "import time\ndef f(x): time.sleep(600)",
    "ignores every signal": """
import signal
for s in range(1, 65):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
def f(x):
    while True: pass""",
    "catches everything, for ever": """
def f(x):
    while True:
        try:
            while True: pass
        except BaseException: pass""",
    "loops at its exit": """
import atexit
def forever():
    while True: pass
atexit.register(forever)
class D:
    def __del__(self): forever()
d = D()
def f(x): raise SystemExit""",
    "takes all memory": "def f(x): return len(bytearray(2**40))",
    "takes memory in small pieces": """
def f(x):
    kept = []
    while True: kept.append(bytearray(2**20))""",
    "takes shared memory": """
import ctypes
def f(x):
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    for _ in range(4):
        key = libc.shmget(0, 2**27, 0o1600)
        if key < 0: return
        at = libc.shmat(key, None, 0)
        ctypes.memset(at, 1, 2**27)
        libc.shmdt(ctypes.c_void_p(at))
    return 'MARKER'""",
    "fills memory files": """
import os
def f(x):
    for i in range(40):
        os.write(os.memfd_create('m'), b'x' * 2**22)
    return 'MARKER'""",
    "fills the disk with one file": """
def f(x):
    with open('big', 'wb') as file:
        for _ in range(1000): file.write(b'x' * 2**20)
    return 'MARKER'""",
    "fills the disk with many files": """
def f(x):
    for i in range(10**5): open(str(i), 'w').write('x' * 10**5)
    return 'MARKER'""",
    "makes a file with a hole": """
def f(x):
    with open('hole', 'wb') as file:
        file.truncate(2**40)
    return 'MARKER'""",
    "nests folders": """
import os
def f(x):
    for i in range(10**5):
        os.mkdir('d')
        os.chdir('d')
    return 'MARKER'""",
    "opens descriptors": "import os\ndef f(x): return [os.pipe() for _ in range(10**6)]",
    "floods its output": "def f(x):\n    while True: print('x' * 10**5)",
    "returns too much": "def f(x): return 'x' * 10**7",
    "returns a structure without end": "def f(x):\n    a = []\n    a.append(a)\n    return a",
    "returns an exponential structure": """
def f(x):
    a = []
    for _ in range(45): a = [a, a]
    return a""",
    "overflows the stack": "import sys\nsys.setrecursionlimit(10**9)\ndef f(x): return f(x)",
    "overflows the parser": "def f(x): return " + "(" * 5000 + "1" + ")" * 5000,
    "crashes": "import ctypes\ndef f(x): ctypes.string_at(0)",
    "writes out a huge number": """
import sys
sys.set_int_max_str_digits(0)
def f(x): return str(7 ** 10 ** 8)""",
    "fills its sockets": """
import socket
def f(x):
    kept = []
    while True:
        pair = socket.socketpair()
        pair[0].setblocking(False)
        kept.append(pair)
        try:
            while True: pair[0].send(b'x' * 65536)
        except BlockingIOError: pass""",
    "raises a signal": "import signal\ndef f(x): signal.raise_signal(signal.SIGKILL)",
}

FORGING = {
    "returns what equals everything": """
class E:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
def f(x): return E()""",
    "returns a string that equals everything": """
class E(str):
    def __eq__(self, other): return True
    __hash__ = str.__hash__
def f(x): return E('no')""",
    "looks for the expected value in frames": """
import sys
def f(x):
    frame, found = sys._getframe(), []
    while frame:
        found += [v for v in frame.f_locals.values() if isinstance(v, str)]
        found += [v for v in frame.f_globals.values() if isinstance(v, str)]
        frame = frame.f_back
    return ' '.join(found)""",
    "looks for the expected value among all objects": """
import gc
def f(x):
    kept = [o for o in gc.get_objects() if isinstance(o, (dict, list))]
    return ' '.join(repr(o)[:5000] for o in kept)[:200000]""",
    "patches the builtins": """
import builtins
builtins.all = builtins.any = builtins.bool = lambda *a: True
builtins.isinstance = lambda *a: True
builtins.type = lambda *a: str
def f(x): return 'no'""",
    "patches the writer": """
import json, sys
json.dumps = lambda *a, **k: '{"value": "true"}'
def f(x): return 'no'""",
    "patches the runner": """
import sys
for name, module in list(sys.modules.items()):
    if name.startswith('srl_envs'):
        for key in ('same', 'loads', 'dumps', '_report', '_answer', 'CodeAttempt'):
            if hasattr(module, key): setattr(module, key, lambda *a, **k: True)
def f(x): return 'no'""",
    "writes its own verdict": """
import os
os.write(3, b'{}\\n{"value": "\\\\"ok\\\\""}\\n{"verdict": "ok"}\\n')
os._exit(0)
def f(x): return 'no'""",
    "reports garbage": """
import os
os.write(3, bytes(range(256)) * 100 + b'\\n' + b'[' * 100000 + b'\\n')
def f(x): return 'no'""",
    "reports a line without end": "import os\nwhile True: os.write(3, b'9' * 65536)",
    "reports deep nesting": """
import os
os.write(3, b'{}\\n{"value": "' + b'[' * 100000 + b'"}\\n')
os._exit(0)
def f(x): return 'no'""",
    "reports keys that collide": """
import os
keys = ','.join('[%d,0]' % (i * (2**61 - 1)) for i in range(9000))
os.write(3, b'{}\\n{"value": "{' + b'\\\\"d\\\\":[' + keys.encode() + b']}"}\\n')
os._exit(0)
def f(x): return 'no'""",
    "reports a number that can be read but not written": """
import os
os.write(3, b'{}\\n{"value": "' + b'9' * 4200 + b'"}\\n')
os._exit(0)
def f(x): return 'no'""",
    "returns a huge number with no limit on digits": """
import sys
sys.set_int_max_str_digits(0)
def f(x): return 10 ** 20000""",
    "reports numbers beyond all range": """
import os
os.write(3, b'{}\\n{"value": "{\\\\"c\\\\": [1e999, -1e999]}"}\\n{"value": "NaN"}\\n')
def f(x): return 'no'""",
    "answers before it is asked": """
import os
os.write(3, b'{}\\n' + b'{"value": "\\\\"ok\\\\""}\\n' * 3000)
def f(x): return 'no'""",
    "says of its call that it is no Python": """
import os
def f(x): os.write(3, b'{"verdict": "syntax", "error": "expected"}\\n')""",
    "prints into its results": """
import os
os.dup2(3, 1)
print('{}')
def f(x): print('{"value": "1"}', flush=True)""",
    "reads its own calls": """
import os
def f(x): return os.read(4, 1000)""",
    "raises what no exception is": """
def f(x): raise KeyboardInterrupt('no')""",
    "returns from a hash that ends it": """
import os
class H:
    def __hash__(self): os._exit(0)
def f(x): return {H(): 1}""",
    "ends before its tests": "import os\nos._exit(0)\ndef f(x): return 'no'",
    "closes its descriptors": "import os\nos.closerange(0, 100)\ndef f(x): return 'no'",
    "returns a surrogate": "def f(x): return '\\ud800'",
    "raises what cannot be shown": """
class E(Exception):
    def __str__(self): raise E()
    __repr__ = __str__
def f(x): raise E()""",
    "reports as another kind of error": """
class E(Exception): pass
E.__name__ = '\\x1b[2J\\u202e' * 1000
def f(x): raise E('\\x1b]0;title\\x07' * 1000)""",
}
