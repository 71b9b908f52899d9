"""Files that programs read before their own first line, put back as in the image before a verifier runs.

That is for images whose /usr is read-only. Elsewhere a model can replace the programs themselves, and the packages that
it installs, with their links and libraries, are part of its work.
"""

from __future__ import annotations

import glob
import os
import stat
from typing import List, Tuple  # noqa: UP035 (evaluated, on Python 3.9 too)

from . import tree

_Entry = Tuple[str, int, bytes]  # noqa: UP006
_SYSTEM = (
    *("ld.so.preload", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld-musl-*", "nsswitch.conf", "alternatives"),
    *("environment", "profile", "profile.d", "bash.bashrc", "bashrc", "zsh", "zshenv", "inputrc"),
    *("python*", "perl", "ruby*", "php", "R", "java*", "maven", "npmrc", "gdb", "emacs", "vim", "sqliterc", "psqlrc"),
    *("ssl/*.cnf", "ssl/*.conf", "gss", "krb5.conf*", "pkcs11", "sasl2", "OpenCL", "vulkan", "glvnd", "ImageMagick*"),
    *("gitconfig", "gitattributes", "wgetrc", "curlrc", "pip.conf", "xdg", "apt", "dpkg", "sudoers*", "pam*"),
    *("ssh/ssh_config*", "latexmkrc", "texmf", "csh*", "fish", "mercurial", "pylintrc", "terminfo", "octave*"),
)
_OF_A_USER = (
    *(".bash*", ".profile", ".zsh*", ".zprofile", ".zlogin", ".inputrc", ".pam_environment", ".config/environment.d"),
    *(".local/lib/python*", ".local/lib/perl*", ".pydistutils.cfg", ".pdbrc*", ".pip", ".config/pip", ".condarc"),
    *(".gitconfig", ".config/git", ".curlrc", ".config/curlrc", ".wgetrc", ".netrc", ".npmrc", ".yarnrc*"),
    *(".node_modules", ".node_libraries", ".Rprofile", ".Renviron", ".irbrc", ".gemrc", ".rspec", ".gdb*", ".lldbinit"),
    *(".jq*", ".vim*", ".exrc", ".config/gdb", ".config/sqlite3", ".duckdbrc", ".cmake", ".hgrc", ".config/hg", ".R"),
    *(
        ".gnuplot*",
        ".maxima",
        ".gprc",
        ".swiplrc",
        ".config/swi-prolog",
        ".erlang*",
        ".expect*",
        ".sbclrc",
        ".terminfo",
    ),
    *(".latexmkrc", ".config/latexmk", "texmf", ".valgrindrc", ".bazelrc", ".bunfig.toml", ".ackrc", ".*cshrc"),
    *(".pylintrc", ".config/pylintrc", ".mypy.ini", ".config/mypy", ".ipython", ".config/matplotlib", ".matplotlib"),
    *(".config/ImageMagick", ".magick", ".config/fish", ".gnupg/*.conf"),
    *(".cargo/config*", ".config/go", ".m2/*.xml", ".mavenrc", ".gradle/init*", ".gradle/gradle.properties"),
    *(".ant*", ".julia/config", ".octaverc", ".sqliterc", ".psqlrc", ".my.cnf", ".ghci", ".config/ghc", ".ocamlinit"),
)
_PATTERNS = (
    *(f"etc/{name}" for name in _SYSTEM),
    *(f"{home}/{name}" for home in ("root", "home/*") for name in _OF_A_USER),
)
_MOST = 20_000
_BYTES = 1 << 22  # of a file; one that has more is not that of the image
_OTHER = -2  # neither a file nor a folder nor a link


def read(root: str) -> List[_Entry]:  # noqa: UP006
    """Return the startup files below a folder, at most 20,000, as `tree.pack_files` takes them."""
    entries: list[_Entry] = []
    for place in _places(root):
        entries.append(_entry(place, os.path.relpath(place, root)))
        for path, _ in tree.walk(place) if entries[-1][0].endswith("/") else ():
            entries.append(_entry(path, os.path.relpath(path, root)))
            if len(entries) > _MOST:
                return entries
    return entries


def put_back(originals: List[_Entry]) -> None:  # noqa: UP006
    """Have exactly these startup files in the root file system of this process."""
    if read("/") == originals:
        return
    for place in _places("/"):
        tree.remove(place)
    tree.unpack(tree.pack_files(originals), "/")


def _places(root: str) -> list[str]:
    return [path for pattern in _PATTERNS for path in sorted(glob.glob(os.path.join(glob.escape(root), pattern)))]


def _entry(path: str, name: str) -> _Entry:
    status = os.lstat(path)
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return name, tree.LINK, os.fsencode(os.readlink(path))
    if stat.S_ISDIR(status.st_mode):
        return f"{name}/", mode, b""
    if not stat.S_ISREG(status.st_mode):
        return name, _OTHER, b""
    with open(path, "rb") as file:
        return name, mode, file.read(_BYTES)
