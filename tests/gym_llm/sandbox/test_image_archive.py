"""Image archives: what `docker save` writes, OCI archives and layouts; and what a hostile or a damaged one comes to."""

import gzip
import json
import os
import shutil
import stat
import tarfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from image_files import COMPRESSIONS, docker_save, folder, layer, link, member, oci_layout, write

from gym_llm.errors import UsageError
from gym_llm.sandbox.inside import tree
from gym_llm.sandbox.machines.image_archive import NO_IMAGE, reason, unpack_image
from gym_llm.sandbox.machines.rootfs import ImageCache


def unpacked(tmp_path: Path, *layers: bytes) -> Path:
    """The root file system of an image with these layers."""
    source = write(tmp_path / "image.tar", oci_layout(list(layers)))
    return Path(ImageCache(str(tmp_path / "cache")).image(source).folder)


_LAYERS = [
    layer(folder("a"), member("a/x", b"1"), member("a/y", b"2"), folder("b"), member("b/z", b"3"), link("link", "a")),
    layer(member("a/.wh.x"), member("b/.wh..wh..opq"), member("b/new", b"4"), link("hard", "a/y", tarfile.LNKTYPE)),
    layer(member("link/w", b"5"), member("./dotted", b"6"), member("/rooted", b"7")),
]


@pytest.mark.parametrize("form", ["tar", "tar.gz", "folder"])
@pytest.mark.parametrize("kind", ["docker save", *COMPRESSIONS])
def test_every_form_of_an_image_gives_the_same_files(kind: str, form: str, tmp_path: Path):
    files = docker_save(_LAYERS) if kind == "docker save" else oci_layout(_LAYERS, kind)
    image = ImageCache(str(tmp_path / "cache")).image(write(tmp_path / "image", files, form))
    assert image.environment == {"PATH": "/bin", "COLOUR": "red", "EMPTY": ""}
    assert (image.workdir, image.user) == ("/work", "nobody")
    root = Path(image.folder)
    content = {name: Path(path).read_text() for path, name in tree.walk(str(root)) if os.path.isfile(path)}
    assert content == {"a/w": "5", "a/y": "2", "hard": "2", "b/new": "4", "dotted": "6", "rooted": "7"}
    assert (root / "hard").samefile(root / "a" / "y") and os.readlink(root / "link") == "a"


def test_layers_that_are_links_to_others_are_those(tmp_path: Path):
    manifest = [{"Config": "config.json", "Layers": ["one/layer.tar", "two/layer.tar"]}]
    entries = [
        member("one/layer.tar", layer(member("a", b"1"))),
        link("two/layer.tar", "../one/layer.tar"),
        member("config.json", b"{}"),
        member("manifest.json", json.dumps(manifest).encode()),
    ]
    (tmp_path / "image.tar").write_bytes(layer(*entries))
    image = ImageCache(str(tmp_path / "cache")).image(str(tmp_path / "image.tar"))
    assert (Path(image.folder) / "a").read_text() == "1"
    assert (image.environment, image.workdir, image.user) == ({}, "/", "root")


@pytest.mark.parametrize("last", [False, True])
def test_a_whiteout_takes_nothing_of_its_own_layer_wherever_it_stands(last: bool, tmp_path: Path):
    below = layer(folder("d"), member("d/old", b"1"), folder("d/both"), member("d/both/old", b"1"), member("x", b"1"))
    made = [folder("d"), member("d/new", b"2"), folder("d/both"), member("d/both/new", b"2"), member("x", b"2")]
    gone = [member("d/.wh..wh..opq"), member(".wh.x"), member(".wh.nothing"), member(".wh..")]
    root = unpacked(tmp_path, below, layer(*(made + gone if last else gone + made)))
    assert sorted(name for _, name in tree.walk(str(root / "d"))) == ["both", "both/new", "new"]
    assert (root / "x").read_text() == "2"


def test_files_folders_and_links_take_each_others_places(tmp_path: Path):
    below = layer(folder("d"), member("d/x", b"1"), member("f", b"1"), link("l", "f"), link("to", "d"))
    above = layer(member("d", b"2"), folder("f"), member("f/y", b"2"), member("l", b"2"), link("to", "f"))
    root = unpacked(tmp_path, below, above)
    assert (root / "d").read_text() == (root / "f" / "y").read_text() == (root / "l").read_text() == "2"
    assert not (root / "l").is_symlink() and os.readlink(root / "to") == "f"


@pytest.mark.parametrize(
    "members",
    [
        [member("../evil", b"x")],
        [member("/../evil", b"x")],
        [member("a/../../evil", b"x")],
        [link("out", "/"), member("out/evil", b"x")],
        [link("out", "../../../.."), member("out/evil", b"x")],
        [link("out", "/"), link("over", "out/.."), member("over/evil", b"x")],
        [link("evil", "/etc/evil"), member("evil", b"x")],
        [link("hard", "../../../etc/passwd", tarfile.LNKTYPE)],
        [link("out", "/etc"), link("hard", "out/passwd", tarfile.LNKTYPE)],
        [link("hard", "", tarfile.LNKTYPE)],
        [link("out", "/"), member("out/.wh.etc"), member("evil", b"x")],
        [link("loop", "loop"), member("loop/evil", b"x")],
        [member("x" * 300, b"x")],
        [member("a\n", b"x"), member("a", b"x"), member("a/evil", b"x")],
    ],
)
def test_no_name_and_no_link_leads_out_of_an_image(members: list[Any], tmp_path: Path):
    (tmp_path / "cache").mkdir()
    before = {path: path.stat().st_mtime_ns for path in (Path("/"), Path("/etc"), tmp_path)}
    (tmp_path / "image.tar").write_bytes(b"")
    try:
        root = unpacked(tmp_path, layer(*members))
        assert (root / "evil").read_text() == "x", "a link leads to the image's own root"
        assert not (root / "evil").is_symlink()
    except UsageError as error:
        assert str(error).startswith(f"{tmp_path}/image.tar cannot be used as an image: ")
        assert not [path for path in (tmp_path / "cache").iterdir() if path.is_dir()], "nothing is left of it"
    assert {path: path.stat().st_mtime_ns for path in before if path != tmp_path} == {
        path: time for path, time in before.items() if path != tmp_path
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "image.tar"]


@pytest.mark.parametrize(
    ("members", "links"),
    [
        *(([link(name, "/etc"), folder("etc")], []) for name in ("proc", "dev")),
        *(([link(name, "../../.."), link("tmp", "/nowhere")], []) for name in ("proc", "dev")),
        ([member(name, b"x") for name in ("proc", "dev", "tmp")], []),
        ([member(name, type=tarfile.FIFOTYPE) for name in ("proc", "dev", "tmp")], []),
        ([folder("var"), folder("var/tmp"), link("tmp", "var/tmp")], ["tmp"]),
        ([link("tmp", "tmp"), link("dev", "proc"), link("proc", "dev")], []),
    ],
)
def test_what_is_mounted_over_is_a_folder_of_the_image(members: list[Any], links: list[str], tmp_path: Path):
    try:
        root = unpacked(tmp_path, layer(*members))
    except UsageError as error:
        assert "a link without an end" in str(error)
        return
    assert all((root / name).is_dir() for name in ("proc", "dev", "tmp"))
    assert [name for name in ("proc", "dev", "tmp") if (root / name).is_symlink()] == links


def test_devices_are_left_out_and_no_file_runs_as_its_owner(tmp_path: Path):
    members = [
        member("disk", type=tarfile.BLKTYPE, devmajor=8, devminor=0),
        member("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
        member("gone", type=tarfile.CHRTYPE, devmajor=0, devminor=0),
        member("pipe", type=tarfile.FIFOTYPE),
        member("su", b"#!", mode=0o4755),
        member("wall", b"#!", mode=0o2755),
        folder("mail", mode=0o2775),
        folder("tmp", mode=0o1777),
        member("secret", b"x", mode=0o000),
    ]
    root = unpacked(tmp_path, layer(*members))
    modes = {name: oct(stat.S_IMODE(os.lstat(path).st_mode)) for path, name in tree.walk(str(root))}
    assert modes.pop("mail") == "0o2775" and modes.pop("tmp") == "0o1777" and modes.pop("pipe") == "0o644"
    assert modes == {"su": "0o755", "wall": "0o755", "secret": "0o0", "dev": "0o755", "proc": "0o755"}


@pytest.mark.parametrize("linked", ["etc", "etc/apt", "etc/apt/apt.conf.d", "etc/apt/apt.conf.d/99gym_llm"])
def test_apt_is_told_that_there_is_one_user_in_the_image_and_nowhere_else(linked: str, tmp_path: Path):
    outside = tmp_path / "outside" / "apt" / "apt.conf.d"
    outside.mkdir(parents=True)
    targets = {"etc": outside.parents[1], "etc/apt": outside.parent}
    target = targets.get(linked, outside if linked.endswith(".d") else outside / "x")
    parents = [folder(str(one)) for one in reversed(Path(linked).parents) if str(one) != "."]
    unpacked(tmp_path, layer(*parents, link(linked, str(target))))
    assert not list(outside.iterdir())
    root = unpacked(tmp_path, layer(folder("etc"), folder("etc/apt"), folder("etc/apt/apt.conf.d")))
    assert "root" in (root / "etc/apt/apt.conf.d/99gym_llm").read_text()


def sparse(name: str, size: int) -> tuple[tarfile.TarInfo, bytes]:
    """A file that is a hole but for its first byte."""
    headers = {"GNU.sparse.map": f"0,1,{size},0", "GNU.sparse.size": str(size), "GNU.sparse.numblocks": "2"}
    return member(name, b"x", pax_headers=headers)


def test_a_file_that_is_mostly_a_hole_stays_one(tmp_path: Path):
    root = unpacked(tmp_path, layer(sparse("lastlog", 200 << 20), member("zeros", bytes(10 << 20))))
    status = (root / "lastlog").stat()
    assert status.st_size == 200 << 20 and status.st_blocks * 512 < 1 << 20
    assert (root / "zeros").stat().st_size == 10 << 20 and (root / "zeros").stat().st_blocks * 512 < 1 << 20


def test_an_image_that_grows_too_large_is_refused_before_it_is_there(tmp_path: Path):
    with pytest.raises(UsageError, match="its files have more than"):
        unpacked(tmp_path, layer(sparse("bomb", 1 << 46)))
    source = write(tmp_path / "two.tar", oci_layout([layer(member("a", bytes(600))), layer(member("b", bytes(600)))]))
    (tmp_path / "root").mkdir()
    with pytest.raises(ValueError, match="its files have more than 400 bytes"):
        unpack_image(source, str(tmp_path / "root"), 1000)


def _header(kind: bytes, size: int, name: str = "x", mode: int = 0o644) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode = kind, size, mode
    return info.tobuf(tarfile.GNU_FORMAT)


def _record(text: str) -> bytes:
    length = len(text) + 2
    length += len(str(length + len(str(length))))
    return f"{length} {text}\n".encode()


def _pax(*records: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    data = b"".join(records)
    return _header(kind, len(data)) + data + bytes(-len(data) % 512)


_HUGE = 100 << 20
_FILE = _header(tarfile.REGTYPE, 0)
_MAP = bytearray(_header(tarfile.GNUTYPE_SPARSE, 1))
_MAP[482] = 1  # more of the map follows
_BOMBS: dict[str, Callable[[], bytes]] = {
    "pax header": lambda: _header(tarfile.XHDTYPE, _HUGE) + bytes(_HUGE) + _FILE,
    "global header": lambda: _header(tarfile.XGLTYPE, _HUGE) + bytes(_HUGE) + _FILE,
    "long name": lambda: _header(tarfile.GNUTYPE_LONGNAME, _HUGE) + b"a" * _HUGE + _FILE,
    "long link": lambda: _header(tarfile.GNUTYPE_LONGLINK, _HUGE) + b"a" * _HUGE + _FILE,
    "many global headers": lambda: (
        b"".join(_pax(_record(f"key{i:06}={'v' * 300}"), kind=b"g") for i in range(9000)) + _FILE
    ),
    "headers of headers": lambda: (_header(tarfile.GNUTYPE_LONGNAME, 2) + b"aa".ljust(512, b"\0")) * 5000 + _FILE,
    "long number": lambda: _pax(_record(f"size={'9' * 900_000}")) + _FILE,
    "records in each other": lambda: _pax(b"2 " * 20_000 + b" a=b") + _FILE,
    "lines in each other": lambda: _pax(b"2\n" * 20_000 + b"=b\n") + _FILE,
    "long headers of many files": lambda: (_pax(_record(f"comment={'c' * 1_000_000}")) + _FILE) * 40,
    "map of holes": lambda: bytes(_MAP) + (b"0" * 11 + b"\0") * 42 + (bytes(504) + b"\1" + bytes(7)) * 200_000,
    "numbers of holes": lambda: (
        _pax(_record("GNU.sparse.major=1"), _record("GNU.sparse.minor=0"))
        + _header(tarfile.REGTYPE, _HUGE)
        + b"9" * _HUGE
    ),
    "deep folders": lambda: b"".join(_pax(_record(f"path={i:02}/{'d/' * 1900}x")) + _FILE for i in range(35)),
    "folders": lambda: b"".join(_header(tarfile.REGTYPE, 0, f"{i:04}/" + "d/" * 40 + "x") for i in range(5000)),
    "negative size": lambda: _header(tarfile.REGTYPE, -512) + _FILE,
    "negative size in a pax header": lambda: _pax(_record("size=-5120")) + _FILE,
    "data of an unknown kind": lambda: _header(b"Z", 1 << 40),
    "infinite time": lambda: _pax(_record("mtime=inf")) + _FILE,
    "no time": lambda: _pax(_record("mtime=nan")) + _FILE,
    "late time": lambda: _pax(_record("mtime=1e300")) + _FILE,
    "links of links": lambda: (
        b"".join(
            _pax(_record(f"linkpath={'a/../' * 700}l{i + 1}")) + _header(tarfile.SYMTYPE, 0, f"l{i}") for i in range(39)
        )
        + b"".join(_header(tarfile.REGTYPE, 0, f"l0/{i}") for i in range(2000))
    ),
}


@pytest.mark.parametrize("place", ["layer", "archive"])
@pytest.mark.parametrize("name", _BOMBS)
def test_an_image_that_expands_in_memory_or_never_ends_is_refused_by_a_sentence(name: str, place: str, tmp_path: Path):
    if place == "layer":
        data = zstandard.ZstdCompressor().compress(_BOMBS[name]())
        source = write(tmp_path / "bomb.tar", docker_save([data]))
    else:
        source = str(tmp_path / "bomb.tar")
        Path(source).write_bytes(gzip.compress(_BOMBS[name](), 1))
    (tmp_path / "root").mkdir()
    tracemalloc.start()
    begun = time.process_time()
    with pytest.raises(NO_IMAGE) as refused:
        unpack_image(source, str(tmp_path / "root"), 20 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert reason(refused.value) and peak < 30 << 20 and time.process_time() - begun < 20
    shutil.rmtree(tmp_path / "root")


def test_the_links_of_all_files_together_have_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    links = [link(f"l{i}", f"{'a/../' * 60}l{i + 1}") for i in range(38)]
    for files in ([member(f"l0/{i}") for i in range(99)], [link(f"h{i}", "l0/x", tarfile.LNKTYPE) for i in range(99)]):
        monkeypatch.setattr(tree, "_ALL_STEPS", 1 << 25)
        good = layer(*links, member("l0/x"), *files)
        tree.unpack(good, str(tmp_path / "good"), whiteouts=tree.NAMES)
        monkeypatch.setattr(tree, "_ALL_STEPS", 50 * 38 * 120)
        with pytest.raises(ValueError, match="too many folders"):
            tree.unpack(good, str(tmp_path / "bad"), whiteouts=tree.NAMES)


def test_memory_that_is_missing_is_a_sentence() -> None:
    assert reason(MemoryError()) == "it needs more memory than there is"


def _damaged() -> dict[str, tuple[dict[str, bytes], str]]:
    good = layer(member("a", os.urandom(100_000)))
    oci = {name: oci_layout([good], name) for name in COMPRESSIONS}
    save = docker_save([good])
    cases: dict[str, tuple[dict[str, bytes], str]] = {}
    for name, files in oci.items():
        largest = max(files, key=lambda one: len(files[one]))
        damaged = bytearray(files[largest])
        damaged[50_000] ^= 1
        cases[f"another byte, {name}"] = {**files, largest: bytes(damaged)}, "the archive is damaged"
    for name, compress in COMPRESSIONS.items():
        cut = compress(good)[:50_000]
        cases[f"cut, {name}"] = {**save, "0abc/layer.tar": cut}, "cannot be used"
    for name in ("tar+gzip", "tar+zstd"):
        data = bytearray(COMPRESSIONS[name](good))
        data[20:40] = bytes(20)
        cases[f"garbled, {name}"] = {**save, "0abc/layer.tar": bytes(data)}, "cannot be used"
    documents: dict[str, tuple[Any, str]] = {
        "no object": ([], "cannot be used"),
        "no images": ({"manifests": []}, "it has no images for"),
        "a text": ({"manifests": "x"}, "cannot be used"),
        "a way out": ({"manifests": [{"digest": "sha256:../../../x"}]}, "it has no blobs/sha256/../../../x"),
        "a missing one": ({"manifests": [{"digest": "sha256:12"}]}, "it has no blobs/sha256/12"),
        "two": ({"manifests": [{"digest": "sha256:1"}, {"digest": "sha256:2"}]}, "it has 2 images for"),
        "no layers": ({"config": {}}, "it has no 'layers'"),
        "too many": ({"layers": [{"digest": "sha256:1"}] * 501, "config": {}}, "more than 500 layers"),
    }
    for name, (document, said) in documents.items():
        cases[f"index: {name}"] = {**oci["tar"], "index.json": json.dumps(document).encode()}, said
    cases["index: deep"] = {**oci["tar"], "index.json": b"[" * 100_000}, "cannot be used"
    two = json.dumps(json.loads(save["manifest.json"]) * 2).encode()
    cases["manifest: two"] = {**save, "manifest.json": two}, "it has 2 images, not one"
    cases["manifest: none"] = {**save, "manifest.json": b"{}"}, "it has 0 images"
    cases["manifest: texts"] = {**save, "manifest.json": b'["x"]'}, "cannot be used"
    return cases


_DAMAGED = _damaged()


@pytest.mark.parametrize("name", _DAMAGED)
def test_a_damaged_image_is_refused_by_a_sentence(name: str, tmp_path: Path):
    files, said = _DAMAGED[name]
    cache = ImageCache(str(tmp_path / "cache"))
    for form in ("tar", "folder"):
        with pytest.raises(UsageError, match=r"cannot be used as an image: [^:]*.*\.$") as refused:
            cache.image(write(tmp_path / f"{form} image", files, form))
        if form == "tar":
            assert said in str(refused.value)
    assert not [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]


@pytest.mark.parametrize(
    "settings",
    [
        *({"User": 5}, {"User": ["root"]}, {"User": "a\0b"}, {"WorkingDir": 1}, {"WorkingDir": {"a": 1}}),
        *({"Env": "A=1"}, {"Env": {"A": "1"}}, {"Env": ["A=1", 5]}, {"Env": [None]}, {"Env": ["A=\0"]}),
        {"Env": ["A=\ud800"]},
    ],
)
def test_settings_of_the_wrong_type_are_refused_before_layers_are_unpacked(settings: Any, tmp_path: Path):
    source = write(tmp_path / "image", oci_layout([b"damaged"], settings=settings))
    with pytest.raises(UsageError, match=f"its configuration is invalid: {next(iter(settings))}"):
        ImageCache(str(tmp_path / "cache")).image(source)


@pytest.mark.parametrize("settings", [None, {}, {"User": None, "Env": None, "WorkingDir": ""}])
def test_settings_may_be_missing(settings: Any, tmp_path: Path):
    image = ImageCache(str(tmp_path / "cache")).image(write(tmp_path / "image", oci_layout([], settings=settings)))
    assert (image.environment, image.workdir, image.user) == ({}, "/", "root")


def test_a_blob_that_is_a_link_to_itself_is_refused(tmp_path: Path):
    entries = [link("index.json", "index.json"), link("manifest.json", "oci-layout"), link("oci-layout", "index.json")]
    (tmp_path / "x.tar").write_bytes(layer(*entries))
    with pytest.raises(UsageError, match="cannot be used as an image"):
        ImageCache(str(tmp_path / "cache")).image(str(tmp_path / "x.tar"))


def test_a_file_that_is_no_image_is_refused(tmp_path: Path):
    for data in (b"no tar", b"", gzip.compress(b"no tar"), b"\x1f\x8b"):
        (tmp_path / "x.tar").write_bytes(data)
        with pytest.raises(UsageError, match=r"x\.tar cannot be used as an image"):
            ImageCache(str(tmp_path / "cache")).image(str(tmp_path / "x.tar"))
