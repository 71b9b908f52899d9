"""What a program may try against its sandbox: it prints ESCAPED if it got through. Each begins with `HELP`.

What it may not do it says, too (`refused: EPERM`). `controls` says with which protection off it gets further, so that
it is known that the protection, and no fault of the attempt's, stops it.
"""

HELP = r"""
import ctypes, errno, fcntl, os, resource, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
OTHER = 1  # the supervisor
def call(number, *arguments):
    return libc.syscall(number, *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
def escaped(yes):
    if yes:
        os.write(1, b"ESCAPED\n")
def tried(function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        os.write(1, f"refused: {errno.errorcode[error.errno]}\n".encode())
        return False
    except ValueError:
        os.write(1, b"refused: ValueError\n")
        return False
    return True
def machine_code(code):
    import mmap
    page = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    function = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    return function()
def called(number, *arguments):
    result = call(number, *arguments)
    escaped(result >= 0)
    if result < 0:
        os.write(1, f"refused: {errno.errorcode[ctypes.get_errno()]}\n".encode())
def names(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []
def fork():
    try:
        return os.fork()
    except OSError:
        return -1
"""

CALLS = {  # x86-64's numbers, with arguments that would do something where the call is allowed
    "mount": "165, b'tmpfs', b'/tmp', b'tmpfs', 0, 0",
    "umount": "166, b'/tmp', 2",
    "pivot_root": "155, b'/tmp', b'/tmp'",
    "chroot": "161, b'/tmp'",
    "a user namespace": "272, 0x10000000",
    "a network namespace": "272, 0x40000000",
    "a time namespace": "272, 0x80",
    "clone into a user namespace": "56, 0x10000000 | 17, 0, 0, 0, 0",
    "clone3": "435, b'\\0' * 88, 88",
    "setns": "308, os.open('/proc/self/ns/mnt', 0), 0",
    "fsopen": "430, b'tmpfs', 0",
    "open_tree": "428, -100, b'/', 0x8001",
    "open_by_handle_at": "304, -100, b'\\0' * 64, 0",
    "ptrace of another": "101, 16, 4000000, 0, 0",
    "ptrace of oneself": "101, 0, 0, 0, 0",
    "process_vm_readv": "310, 1, b'\\0' * 16, 1, b'\\0' * 16, 1, 0",
    "pidfd_getfd": "438, os.pidfd_open(os.getpid()), 0, 0",
    "add_key": "248, b'user', b'a', b'b', 1, -3",
    "request_key": "249, b'user', b'a', 0, -3",
    "keyctl": "250, 0, -3, 1",
    "bpf": "321, 0, b'\\0' * 128, 1 << 20",
    "perf_event_open": "298, b'\\0' * 112, 0, -1, -1, 1 << 20",
    "userfaultfd": "323, 1",
    "io_uring": "425, 8, b'\\0' * 120",
    "memfd_create": "319, b'a', 0",
    "memfd_secret": "447, 0",
    "vmsplice": "278, os.pipe()[1], struct.pack('PN', id(b'a'), 1), 1, 0",
    "inotify": "294, 0",
    "SysV memory": "29, 0, 4096, 0o1600",
    "SysV semaphores": "64, 0, 1, 0o1600",
    "POSIX queues": "240, b'a', 0o102, 0o600, 0",
    "settimeofday": "164, 8, 0",
    "clock_settime": "227, 0, 8",
    "adjtimex": "159, 8",
    "clock_adjtime": "305, 0, 8",
    "sethostname": "170, b'a', 1",
    "reboot": "169, 0xfee1dead, 672274793, 0, 0",
    "init_module": "175, b'', 0, b''",
    "the kernel's log": "103, 3, b' ' * 100, 100",
    "iopl": "172, 4",
    "an x32 call": "0x40000000 | 39",
    "the supervisor's limits": "302, 1, 7, struct.pack('QQ', 0, 0), 0",
    "the supervisor's processor time": "302, 1, 0, struct.pack('QQ', 1, 1), 0",
    "the supervisor's priority": "141, 0, 1, 19",
    "everybody's priority": "141, 2, os.getuid(), 19",
    "the supervisor's scheduler": "144, 1, 5, struct.pack('i', 0)",
    "the supervisor's processors": "203, 1, 8, struct.pack('Q', 1)",
    "real time": "144, 0, 1, struct.pack('i', 1)",
    "a lower nice value": "141, 0, 0, -20",
    "more rights": "126, struct.pack('Ii', 0x20080522, 0), struct.pack('6I', *[0xffffffff] * 3, 0, 0, 0)",
    "the root user": "105, 0",
}

PROGRAMS = {
    "a socket of the internet": "escaped(tried(socket.socket))",
    "a local socket": "escaped(tried(socket.socket, socket.AF_UNIX))",
    "AF_VSOCK": "escaped(tried(socket.socket, 40, socket.SOCK_STREAM))",
    "netlink": "escaped(tried(socket.socket, 16, socket.SOCK_RAW))",
    "pairs of other families": """
for family in (2, 10, 16, 17, 40, 44):
    escaped(call(53, family, 1, 0, (ctypes.c_int * 2)()) == 0 or ctypes.get_errno() != errno.EAFNOSUPPORT)""",
    "a note for the next run": "escaped(tried(os.open, '/proc/sys/kernel/shmmax', os.O_WRONLY))\n"
    "escaped(tried(os.open, '/proc/sys/fs/mqueue/queues_max', os.O_WRONLY))",
    "shared memory without a name": """
import mmap
escaped(tried(mmap.mmap, -1, 4096))
zeros = os.open('/dev/zero', os.O_RDWR)
escaped(tried(mmap.mmap, zeros, 4096)); escaped(os.read(zeros, 2) != bytes(2))""",
    "a pair of datagram sockets": "escaped(tried(socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM))",
    "an address for half a pair": "escaped(tried(socket.socketpair()[0].bind, b'\\0k1'))",
    "a note of how others use a folder": "escaped(tried(fcntl.fcntl, os.open('/usr', 0), 1026, 0x20))",
    "a lease": """
os.close(os.open('/tmp/lease', os.O_CREAT))
escaped(tried(fcntl.fcntl, os.open('/tmp/lease', 0), 1024, 0))""",
    "a lock that other runs see": """
one, other = os.open('/usr/bin/env', 0), os.open('/usr/bin/env', 0)
escaped(tried(fcntl.flock, one, fcntl.LOCK_EX) and not tried(fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB))""",
    "a larger pipe": "escaped(tried(fcntl.fcntl, os.pipe()[1], 1031, 1 << 20))",
    "descriptors in flight": """
import array
one, other = socket.socketpair()
rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1]))]
escaped(tried(one.sendmsg, [b'a'], rights))""",
    "many groups of the scheduler": """
ready, done = os.pipe()
children = 0
for _ in range(40):
    child = fork()
    if child == 0:
        os.setsid(); os.write(done, b'a'); time.sleep(9); os._exit(0)
    children += child > 0
for _ in range(children): os.read(ready, 1)
time.sleep(5); escaped(True)""",
    "the kernel's memory for mappings": """
libc.mmap.restype = ctypes.c_void_p
size = ctypes.c_size_t(30000 * 4096)
start = libc.mmap(None, size, 1, 0x22, -1, ctypes.c_long(0))
for number in range(0, 30000, 2):
    libc.mprotect(ctypes.c_void_p(start + number * 4096), ctypes.c_size_t(4096), 0)
time.sleep(5); escaped(True)""",
    "the kernel's memory for pipes": """
ready, done = os.pipe()
children, kept = 0, []
def fill():
    for _ in range(120):
        kept.extend(os.pipe())
        os.set_blocking(kept[-1], False)
        os.write(kept[-1], bytes(1 << 16))
for _ in range(50):
    child = fork()
    if child == 0:
        fill(); os.write(done, b'a'); time.sleep(30); os._exit(0)
    children += child > 0
for _ in range(children): os.read(ready, 1)
time.sleep(20); escaped(True)""",
    "host files": """
for path in ('/etc/passwd', '/etc/shadow', '/var', '/sys', '/boot', '/root/.bashrc', '/root/.ssh', HOST):
    escaped(os.path.exists(path))""",
    "writing to what is shown": """
for folder in ('/', '/usr', '/usr/bin', '/dev', '/run/gym_llm/inside', os.path.dirname(os.__file__), *sys.path):
    escaped(tried(os.mkdir, os.path.join(folder, 'escape')) and not folder.startswith('/tmp') and folder != '')
    escaped(os.path.exists(folder) and tried(os.utime, folder) and folder[:4] != '/tmp')""",
    "this package's data": "import importlib.util as u; s = u.find_spec('gym_llm'); "
    "escaped(s is not None and any(names(p) for p in s.submodule_search_locations or []))",
    "the supervisor in /proc": """
for name in ('mem', 'environ', 'fd/0', 'root', 'cwd', 'maps', 'ns/mnt', 'syscall', 'stack', 'auxv'):
    escaped(tried(os.open, f'/proc/{OTHER}/{name}', os.O_RDONLY))
escaped(bool(names(f'/proc/{OTHER}/fd')))""",
    "other processes": "escaped({n for n in os.listdir('/proc') if n.isdigit()} - {'1', str(os.getpid())})",
    "settings of the kernel": """
for name in ('kernel/core_pattern', 'kernel/hostname', 'vm/overcommit_memory', 'user/max_user_namespaces'):
    escaped(tried(os.open, '/proc/sys/' + name, os.O_WRONLY))
escaped(tried(os.open, '/proc/sysrq-trigger', os.O_WRONLY))""",
    "signals to the supervisor": """
for number in set(signal.valid_signals()):
    tried(os.kill, OTHER, number)
tried(os.kill, -1, signal.SIGCONT)
print('here')""",
    "SIGIO to the supervisor": """
r, w = os.pipe()
tried(fcntl.fcntl, r, fcntl.F_SETOWN, OTHER); tried(fcntl.fcntl, r, 10, signal.SIGKILL)
fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC); os.write(w, b'a'); time.sleep(0.1)""",
    "open files that are left": "escaped({int(n) for n in os.listdir('/proc/self/fd')} - {0, 1, 2, 3})",
    "writing to standard input": """
import stat
try:
    d = os.open('/proc/self/fd/0', os.O_RDWR); escaped(os.write(d, b'a'))
except OSError: pass""",
    "raising limits": """
for name in range(16):
    hard = resource.getrlimit(name)[1]
    escaped(hard > 0 and tried(resource.setrlimit, name, (hard + 1, hard + 1)))""",
    "a device": "escaped(tried(os.mknod, '/tmp/a', 0o20600, os.makedev(1, 1)))",
    "a set-user-ID program": """
for folder in ('/bin', '/usr/bin', '/usr/sbin'):
    for name in names(folder):
        if os.stat(f'{folder}/{name}', follow_symlinks=False).st_mode & 0o4000:
            os.system(f"{folder}/{name} -c 'id -u' </dev/null 2>/dev/null | grep -qx 0 && echo ESCAPED"); break""",
    "a fork bomb": "while True: fork()",
    "many processes": "n = 0\nwhile (child := fork()) > 0: n += 1\nif child == 0: time.sleep(9)\nescaped(n > 100)",
    "forks that nobody waits for": """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    fork()
    time.sleep(0.001)""",
    "filling the disk": """
n = 0
try:
    for i in range(10000):
        with open(f'/tmp/{i}', 'wb') as f: n += f.write(bytes(1 << 20))
except OSError: pass
escaped(n > 100 << 20)""",
    "filling /dev/shm": """
try:
    with open('/dev/shm/a', 'wb', 0) as f:
        for n in range(10000): f.write(bytes(1 << 20))
except OSError: pass
escaped(os.path.getsize('/dev/shm/a') > 100 << 20)""",
    "exhausting inodes": """
n = 0
try:
    while True: os.symlink('a', f'/tmp/{n}'); n += 1
except OSError: escaped(n > 5000)""",
    "exhausting descriptors": """
kept = []
try:
    while True: kept.append(os.dup(0))
except OSError: escaped(len(kept) > 300)""",
    "memory of many processes that hide it": """
libc.prctl(4, 0)
for _ in range(3): os.fork()
kept = bytearray(60 << 20); kept[::4096] = b'1' * len(kept[::4096]); time.sleep(0.5); escaped(True)""",
    "shared memory": """
import mmap
kept = []
for i in range(8):
    f = os.open(f'/dev/shm/{i}', os.O_RDWR | os.O_CREAT); os.ftruncate(f, 16 << 20); kept.append(mmap.mmap(f, 16 << 20))
for m in kept: m.write(bytes(16 << 20))
escaped(True)""",
    "memory of a process whose first thread has ended": """
import threading
def hold():
    kept = bytearray(300 << 20); kept[::4096] = b'1' * len(kept[::4096]); time.sleep(0.5); escaped(True); os._exit(0)
threading.Thread(target=hold).start(); call(60, 0)""",
    "buffers of sockets": """
for _ in range(32): fork()
kept = []
try:
    while True:
        for s in socket.socketpair(): s.setblocking(False); kept.append(s)
except OSError: pass
for s in kept:
    try:
        while True: s.send(bytes(1 << 16))
    except OSError: pass
time.sleep(5)""",
    "a flood of small writes": "for _ in range(16): fork()\nwhile True: os.write(1, b'a')",
    "standard output closed": "os.close(1)\nos.close(2)\nwhile True: pass",
    "sleeping a little, often": "while True: time.sleep(0.004)",
    "patched builtins": "import builtins\nbuiltins.len = lambda _: 0\nos._exit = print",
    "a process that goes on alone": "if fork() == 0:\n    os.setsid()\n    while True: time.sleep(0.1)",
    "a 32-bit call": "escaped(machine_code(b'\\xb8\\x14\\0\\0\\0\\xcd\\x80\\xc3') > 0)  # getpid",
    "a 32-bit call, a mount": "code = b'\\xb8\\x15\\0\\0\\0\\x31\\xdb\\x31\\xc9\\x31\\xd2\\xcd\\x80\\xc3'\n"
    "escaped(machine_code(code) > -4095)",
    "an x32 call in machine code": "n = machine_code(b'\\xb8\\x27\\0\\0\\x40\\x0f\\x05\\xc3')\nescaped(n > 0)",
    "a filter that allows all": """
program = struct.pack('HBBI', 6, 0, 0, 0x7fff0000)
ctypes_program = ctypes.create_string_buffer(program)
libc.prctl(22, 2, struct.pack('HxxxxxxP', 1, ctypes.addressof(ctypes_program)), 0, 0)
escaped(call(319, b'a', 0) >= 0)""",
    "left: a file": "open('left', 'w').write('plain')",
    "left: a folder": "os.mkdir('left')",
    "left: a pipe": "os.mkfifo('left')",
    "left: a link to the supervisor": "os.symlink('/proc/self/environ', 'left')",
    "left: a link to /etc": "os.symlink('/usr/bin/env', 'left')",
    "left: a huge sparse file": "open('left', 'w').truncate(60 << 20)",
    "left: a closed folder": "open('left', 'w').close(); os.chmod('left', 0); os.chmod('/tmp', 0)",
}
