import gzip
import json

import pytest
from cli_process import CommandProcess, Shell
from hub_server import OUTSIDER, OWNER, HubServer, Repo, serving

from gym_llm.data.files.datasets import DatasetConfig
from gym_llm.data.hubs.publishing import check_training_rows, collection_id, name_in_repo, repo_name
from gym_llm.errors import DataError

pytestmark = pytest.mark.slow

REPO = "acme/Nemotron-RL-math-sums"
SUMS = ("--domain", "math", "--name", "sums")
TO, FROM = ("--to", "huggingface"), ("--from", "huggingface")
BIG = b"".join(b'{"responses_create_params": {"input": "%d + 1"}, "n": %d.0}\n' % (n, n) for n in range(20_000))
ODD = b"".join(
    b'{"responses_create_params":  {"input": "hi"}, "only_%d": {"b": 1, "a": null}, "n": 1.0}\n' % n for n in range(3)
)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    hub = HubServer()
    with serving(hub.app()) as url:
        hub.url = url
        settings = {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
        commands = CommandProcess(HF_ENDPOINT=url, HF_HOME=str(tmp_path_factory.mktemp("home")), **settings)
        yield hub, commands
        commands.close()


@pytest.fixture
def hub(address):
    hub, _ = address
    for state in (hub.repos, hub.faults, hub.blobs, hub.seen, hub.collections, hub.headers, hub.info):
        state.clear()
    return hub


@pytest.fixture
def shell(address, tmp_path):
    (tmp_path / "env.yaml").write_text(f"hf_token: {OWNER}\nhf_organization: acme\n")
    (tmp_path / "sums.jsonl").write_bytes(ODD)
    return Shell(address[1], tmp_path)


def published(hub, private=True, **files):
    hub.repos[REPO] = Repo(private, {"main": {f"{name}.jsonl": data for name, data in files.items()}})


def test_what_was_uploaded_comes_back_byte_for_byte(hub, shell):
    (shell.folder / "val.jsonl").write_bytes(BIG)  # large enough to be sent apart from the commit
    assert f"uploaded to {REPO}: sums-train.jsonl\n" in shell("data", "upload", "sums.jsonl", *TO, *SUMS)
    said = shell("data", "upload", "val.jsonl", *TO, *SUMS, "--split", "validation")
    assert f"commit: {hub.url}/datasets/{REPO}/commit/" in said
    assert hub.repos[REPO].private and len(hub.blobs) == 1
    assert [entry["title"] for entry in hub.repos[REPO].log] == ["Upload sums-train.jsonl", "Upload val.jsonl"]
    shell("data", "download", *FROM, "--repo-id", REPO, "--output-dir", "out")
    assert sorted(path.name for path in (shell.folder / "out").iterdir()) == ["train.jsonl", "validation.jsonl"]
    assert (shell.folder / "out/train.jsonl").read_bytes() == ODD
    assert (shell.folder / "out/validation.jsonl").read_bytes() == BIG


def test_the_configuration_gives_name_and_domain(hub, shell):
    (shell.folder / "config.yaml").write_text("quiz: {env: gym_llm/MultipleChoice-v0, domain: knowledge}\n")
    shell("data", "upload", "sums.jsonl", *TO, "--config", "config.yaml", "hf_dataset_prefix=Mine")
    assert list(hub.repos) == ["acme/Mine-knowledge-quiz"]


def test_a_pull_request_is_opened_against_a_new_branch_by_somebody_who_may_not_write(hub, shell):
    published(hub, private=False, train=ODD)
    request = ("--create-pr", "--commit-message", "Add rows", "--commit-description", "545 examples")
    (shell.folder / "env.yaml").write_text(f"hf_token: {OUTSIDER}\nhf_organization: acme\n")
    said = shell("data", "upload", "sums.jsonl", *TO, *SUMS, *request)
    assert f"pull request: {hub.url}/datasets/{REPO}/discussions/1\n" in said
    assert "(403)" in shell.sentence("data", "upload", "sums.jsonl", *TO, *SUMS)
    assert "make the branch rows" in shell.sentence(
        "data", "upload", "sums.jsonl", *TO, *SUMS, *request, "--revision=rows"
    )
    (shell.folder / "env.yaml").write_text(f"hf_token: {OWNER}\nhf_organization: acme\n")
    shell("data", "upload", "sums.jsonl", *TO, *SUMS, *request, "--revision", "rows")
    expected = {"title": "Add rows", "text": "545 examples"}
    assert hub.repos[REPO].requests == [{"base": base, **expected} for base in ("main", "rows")]
    assert list(hub.repos[REPO].branches["main"]) == ["train.jsonl"]


def test_an_upload_goes_to_the_branch_that_is_named(hub, shell):
    published(hub, train=ODD)
    assert "(404)" in shell.sentence("data", "upload", "sums.jsonl", *TO, *SUMS, "--revision", "rows")
    hub.repos[REPO].branches["rows"] = {}
    shell("data", "upload", "sums.jsonl", *TO, *SUMS, "--revision", "rows")
    assert list(hub.repos[REPO].branches["rows"]) == ["sums-train.jsonl"]
    shell("data", "download", *FROM, "--repo-id", REPO, "--revision", "rows", "--split", "train", "--output", "a.jsonl")
    assert (shell.folder / "a.jsonl").read_bytes() == ODD


def test_a_dataset_is_added_to_the_collection_once(hub, shell):
    hub.collections["acme/rl-data-68b5"] = []
    settings = ("hf_collection_name=RL Data", "hf_collection_slug=68b5")
    for name in ("a.jsonl", "b.jsonl"):
        (shell.folder / name).write_bytes(ODD)
        shell("data", "upload", name, *TO, *SUMS, *settings)
    assert hub.collections == {"acme/rl-data-68b5": [REPO]}
    said = shell.sentence("data", "upload", "a.jsonl", *TO, *SUMS, "hf_collection_name=Other", "hf_collection_slug=1")
    assert f"add {REPO}, which is uploaded, to the collection acme/other-1 (404)" in said


def test_wrong_training_rows_are_named_and_nothing_is_sent(hub, shell):
    rows = [b"{}", b'{"responses_create_params": {}}', b"", b"[1]", b"{", b"{}", b'{"responses_create_params": []}']
    (shell.folder / "sums.jsonl").write_bytes(b"\n".join(rows) + b"\n")
    said = shell("data", "upload", "sums.jsonl", *TO, *SUMS, code=2)
    assert "6 bad rows" in said and "lines 1, 6-7: `responses_create_params` is missing" in said
    assert "line 3: the line is empty" in said and "line 4: not a JSON object" in said and "line 5: not JSON" in said
    assert hub.seen == []
    (shell.folder / "sums.jsonl").write_bytes(b"{}\n")
    shell("data", "upload", "sums.jsonl", *TO, *SUMS, "--split", "test")  # only training rows are checked


def test_one_file_of_a_repository(hub, shell):
    published(hub, train=ODD)
    hub.repos[REPO].branches["main"]["raw/rows.jsonl.gz"] = gzip.compress(ODD)
    artifact = ("data", "download", *FROM, "--repo-id", REPO, "--artifact")
    shell(*artifact, "raw/rows.jsonl.gz", "--output", "rows.jsonl")
    shell(*artifact, "raw/rows.jsonl.gz", "--output-dir", "out")
    assert (shell.folder / "rows.jsonl").read_bytes() == ODD
    assert gzip.decompress((shell.folder / "out/rows.jsonl.gz").read_bytes()) == ODD
    assert shell.sentence(*artifact, "a.jsonl", "--output-dir", "out") == (
        f"{REPO} has no file a.jsonl; there are: raw/rows.jsonl.gz, train.jsonl."
    )
    assert "ends in .gz" in shell.sentence(*artifact, "raw/rows.jsonl.gz", "--output", "rows.txt")


def test_a_split_that_is_parquet_or_csv_becomes_json_lines(hub, shell, tmp_path):
    import pyarrow
    from pyarrow import parquet

    rows = [{"responses_create_params": {"input": "hi"}, "answer": n} for n in range(3)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
    published(hub)
    hub.repos[REPO].branches["main"]["data/train-00000-of-00001.parquet"] = (tmp_path / "rows.parquet").read_bytes()
    shell("data", "download", *FROM, "--repo-id", REPO, "--split", "train", "--output-dir", "out")
    assert [json.loads(line) for line in (tmp_path / "out/train.jsonl").read_bytes().splitlines()] == rows
    hub.repos[REPO].branches["main"] = {"test.csv": b"question,answer\nhow many,3\n"}
    shell("data", "download", *FROM, "--repo-id", REPO, "--output-dir", "out")
    assert (tmp_path / "out/test.jsonl").read_bytes() == b'{"question":"how many","answer":3}\n'


def test_what_cannot_be_downloaded_is_said_in_one_sentence(hub, shell):
    published(hub, train=ODD)
    download = ("data", "download", *FROM, "--repo-id", REPO)
    assert shell.sentence(*download, "--split", "test", "--output-dir", "out") == (
        f"{REPO} has no split test; there are: train."
    )
    assert "All splits are several files" in shell.sentence(*download, "--output", "a.jsonl")
    assert "--artifact" in shell.sentence(*download, "--split=a", "--artifact=b", "--output=c")
    assert "--output-dir" in shell.sentence(*download) and "--output-dir" in shell.sentence(
        *download, "--output-dir=a", "--output=c"
    )
    assert "(404)" in shell.sentence("data", "download", *FROM, "--repo-id", "acme/other", "--output-dir", "out")
    hub.repos[REPO].branches["main"].clear()
    assert REPO in shell.sentence(*download, "--output-dir", "out")
    assert not (shell.folder / "out").exists()


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (401, {"X_Error_Message": "Invalid credentials in Authorization header"}, "does not accept the token (401)"),
        (403, {"X_Error_Message": "no"}, "does not allow this hf_token to make the repository"),
        (404, {"X_Error_Code": "RepoNotFound"}, "(404): there is no such thing"),
        (429, {"Retry_After": "37"}, "too many requests to make the repository"),
        (500, {}, "(500: ordered 500)"),
        ("drop", {}, "could not be reached to make the repository"),
    ],
)
def test_each_refusal_is_one_sentence(hub, shell, status, headers, expected):
    hub.fail("POST", "/api/repos/create", status, **headers)
    said = shell.sentence("data", "upload", "sums.jsonl", *TO, *SUMS)
    assert expected in said and REPO in said and OWNER not in said
    assert status != 429 or "in 37 seconds" in said


@pytest.mark.parametrize("status", [409, 412])
def test_a_commit_that_collides_is_one_sentence_and_can_be_made_again(hub, shell, status):
    hub.fail("POST", "*/commit/main", status)
    assert f"({status})" in shell.sentence("data", "upload", "sums.jsonl", *TO, *SUMS)
    assert hub.repos[REPO].branches["main"] == {}
    shell("data", "upload", "sums.jsonl", *TO, *SUMS)  # the repository is there: the hub's own 409, which is no error
    assert hub.repos[REPO].branches["main"] == {"sums-train.jsonl": ODD}


def test_a_wrong_token_is_refused_and_shown_nowhere(hub, shell):
    secret = "hf_notavalidtokenatall"
    (shell.folder / "env.yaml").write_text(f"hf_token: {secret}\nhf_organization: acme\n")
    said = shell.sentence("data", "list", *FROM)
    assert "does not accept the token (401)" in said and "hf_token" in said and secret not in said
    said = shell.sentence("data", "list", *FROM, f"hf_token={secret}")
    assert "env.yaml" in said and secret not in said and hub.seen == ["GET /api/datasets"]


def test_the_token_may_be_in_the_environment(hub, shell):
    published(hub, train=ODD)
    (shell.folder / "env.yaml").write_text("hf_organization: acme\n")
    assert shell("data", "list", *FROM) == ""
    assert shell("data", "list", *FROM, HF_TOKEN=OWNER) == f"{REPO}\tprivate\n"


def test_an_upload_killed_in_the_middle_leaves_nothing_and_the_next_one_completes_it(hub, shell):
    (shell.folder / "sums.jsonl").write_bytes(BIG)
    hub.fail("POST", "*/commit/main", "hang")
    shell.killed(hub.reached, "data", "upload", "sums.jsonl", *TO, *SUMS)
    assert hub.repos[REPO].branches["main"] == {}
    hub.fail("POST", "*/commit/main", "drop")
    assert "could not be reached" in shell.sentence("data", "upload", "sums.jsonl", *TO, *SUMS)
    shell("data", "upload", "sums.jsonl", *TO, *SUMS)
    assert hub.repos[REPO].branches["main"] == {"sums-train.jsonl": BIG}
    assert len([seen for seen in hub.seen if seen.startswith("PUT /lfs/")]) == 1  # what had arrived is not sent again


def test_a_download_killed_in_the_middle_leaves_no_half_file_and_the_next_one_completes_it(hub, shell):
    published(hub, train=BIG + ODD)
    download = ("data", "download", *FROM, "--repo-id", REPO, "--split", "train", "--output-dir", "out")
    hub.fail("GET", "*/train.jsonl", "half")
    shell.killed(hub.reached, *download)
    assert not (shell.folder / "out/train.jsonl").exists()
    hub.fail("GET", "*/train.jsonl", "cut")  # the client goes on where it was
    shell(*download)
    assert (shell.folder / "out/train.jsonl").read_bytes() == BIG + ODD


@pytest.mark.parametrize("answer", ["", "sums\n", "y\n"])
def test_deleting_needs_the_name_typed(hub, shell, answer):
    published(hub, train=ODD)
    assert "Nothing was deleted" in shell("data", "delete", REPO, *FROM, stdin=answer, code=2)
    assert REPO in hub.repos
    shell("data", "delete", REPO, *FROM, stdin=f"{REPO}\n")
    assert not hub.repos
    assert "has no dataset" in shell.sentence("data", "delete", REPO, *FROM, "--yes")


def test_prepare_downloads_what_is_missing(hub, shell):
    rows = b"".join(
        b'{"responses_create_params": {"input": [{"role": "user", "content": "%d"}]}, "expected_answer": "A", '
        b'"options": [{"A": "x"}, {"B": "y"}]}\n' % n
        for n in range(4)
    )
    published(hub, train=rows)
    hub.repos[REPO].branches["main"]["raw/val.jsonl"] = rows
    (shell.folder / "config.yaml").write_text(
        f"""\
quiz:
  env: gym_llm/MultipleChoice-v0
  domain: knowledge
  datasets:
    - {{name: a, type: train, jsonl_fpath: data/train.jsonl, license: MIT, huggingface_identifier: {{repo_id: {REPO}}}}}
    - name: b
      type: validation
      jsonl_fpath: data/val.jsonl
      license: MIT
      huggingface_identifier: {{repo_id: {REPO}, artifact_fpath: raw/val.jsonl}}
"""
    )
    prepare = ("data", "prepare", "--config", "config.yaml", "--output-dir", "out", "--mode", "train_preparation")
    shell(*prepare, "--tokenizer", "none", "--download")
    assert (shell.folder / "data/train.jsonl").read_bytes() == (shell.folder / "data/val.jsonl").read_bytes() == rows
    assert len((shell.folder / "out/train.jsonl").read_bytes().splitlines()) == 4


def test_a_dataset_without_an_identifier_cannot_be_downloaded():
    from gym_llm.data.hubs.huggingface import download

    dataset = DatasetConfig(name="a", type="train", jsonl_fpath="a.jsonl", license="MIT")
    for source in ("huggingface", "gitlab"):
        with pytest.raises(DataError, match=f"{source}_identifier"):
            download(dataset, source=source, variables={})


@pytest.mark.parametrize(
    ("path", "split", "name"),
    [
        ("a/train.jsonl", "train", "train.jsonl"),
        ("training set.jsonl.gz", "train", "training set.jsonl.gz"),
        ("benchmark.parquet", "test", "benchmark-test.parquet"),
        ("trained.jsonl", "validation", "trained-validation.jsonl"),
        ("my_dev_1.jsonl.zst", "validation", "my_dev_1.jsonl.zst"),
    ],
)
def test_a_file_name_says_its_split(path, split, name):
    assert name_in_repo(path, split) == name


@pytest.mark.parametrize(("path", "split"), [("train.jsonl", "test"), ("a_eval.jsonl", "train"), ("a.txt", "train")])
def test_a_file_name_that_says_another_split_is_refused(path, split):
    with pytest.raises(DataError):
        name_in_repo(path, split)


def test_repository_names_follow_nemo_gym():
    acme = {"hf_organization": "acme"}
    assert repo_name({**acme, "hf_dataset_prefix": ""}, None, "a") == "acme/a"
    assert repo_name(acme, "Math", "A_b.c") == "acme/Nemotron-RL-math-A_b.c"
    for variables, name in (({}, "a"), (acme, "a/b"), (acme, "a b"), (acme, "a--b"), (acme, "x" * 100)):
        with pytest.raises(DataError):
            repo_name(variables, "math", name)
    assert collection_id(acme) is None
    with pytest.raises(DataError, match="both"):
        collection_id({**acme, "hf_collection_name": "a"})


def test_an_empty_training_file_is_refused(tmp_path):
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(DataError, match="has no rows"):
        check_training_rows(tmp_path / "a.jsonl")


DOWNLOAD = ("data", "download", *FROM, "--repo-id", REPO)
ARTIFACT = (*DOWNLOAD, "--artifact", "train.jsonl", "--output", "train.jsonl")


def everything_below(*folders):
    return {path: path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("way", [ARTIFACT, (*DOWNLOAD, "--output-dir", "out")])
@pytest.mark.parametrize("header", ["ETag", "X-Linked-Etag", "X-Repo-Commit", "X-Xet-Hash"])
@pytest.mark.parametrize("name", ["{outside}/evil", "../../../../../../../../../../{outside}/evil", ".."])
def test_a_hub_does_not_choose_where_a_file_is_written(hub, shell, tmp_path_factory, way, header, name):
    published(hub, private=False, train=ODD, README=b"---\n---\n")
    outside = tmp_path_factory.mktemp("outside")
    before = everything_below(outside.parent)
    hub.headers[header] = name.format(outside=outside)
    said = shell.sentence(*way)
    assert "not a valid name" in said
    assert not [path for path in everything_below(outside.parent).keys() - before.keys() if "evil" in path.name]
    assert not list(outside.iterdir()) and not list(shell.folder.rglob("train.jsonl"))


def test_an_etag_as_hubs_have_it_is_no_path(hub, shell):
    published(hub, private=False, train=ODD)
    hub.headers["ETag"] = 'W/"d41d8cd98f00b204e9800998ecf8427e-12"'
    shell(*ARTIFACT)
    assert (shell.folder / "train.jsonl").read_bytes() == ODD


@pytest.mark.parametrize("sha", ["../../evil", "/etc", "main", 7, None, ["x"], "a" * 39])
@pytest.mark.parametrize("way", [ARTIFACT, (*DOWNLOAD, "--output-dir", "out")])
def test_a_commit_that_is_none_is_one_sentence(hub, shell, sha, way):
    published(hub, private=False, train=ODD)
    hub.info["sha"] = sha
    assert "names a commit" in shell.sentence(*way)


@pytest.mark.parametrize(
    "file", ["../evil.jsonl", "/tmp/evil.jsonl", "a/../../evil.jsonl", "a//b.jsonl", "a\\b.jsonl", "."]
)
def test_a_file_that_leads_elsewhere_is_one_sentence(hub, shell, file):
    published(hub, private=False, train=ODD)
    hub.info["siblings"] = [{"rfilename": file}]
    said = shell.sentence(*DOWNLOAD, "--artifact", file, "--output", "out.jsonl")
    assert "not a valid name" in said and not (shell.folder / "out.jsonl").exists()


@pytest.mark.parametrize("siblings", [7, [7], [{}], {"a": 1}, "x"])
def test_nonsense_from_a_hub_is_one_sentence(hub, shell, siblings):
    published(hub, private=False, train=ODD)
    hub.info["siblings"] = siblings
    shell.sentence(*ARTIFACT)


def test_a_split_that_is_a_path_is_not_written(hub, shell):
    published(hub, private=False, train=ODD)
    front = "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: ../evil\n    path: train.jsonl\n---\n"
    hub.repos[REPO].branches["main"]["README.md"] = front.encode()
    shell.sentence(*DOWNLOAD, "--output-dir", "out")
    assert not list(shell.folder.rglob("evil*"))
