from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stallscope.errors import LakeError
from stallscope.storage import manifest
from stallscope.storage.follower import ManifestFollower
from stallscope.storage.layout import create_lake, open_lake
from stallscope.storage.manifest import Entry, ManifestWriter, read_manifest

ENTRY = Entry(
    file="t/a.parquet", table="t", rows=1, bytes=10, digest="00", lo=1, hi=2, version=1,
    boot_id="b", first=1, last=1, level=0,
)  # fmt: skip
OTHER = replace(ENTRY, file="t/b.parquet", first=2, last=2)


def test_commits_survive_a_new_start(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    first = ManifestWriter(path, sync=True)
    first.commit(add=[ENTRY], sealed={"t": 1}, reserved={"engine": 3})
    first.commit(add=[OTHER], remove=[ENTRY.file], sealed={"t": 2})
    first.close()
    contents, _ = read_manifest(path)
    assert contents.entries == {OTHER.file: OTHER}
    assert contents.sealed == {"t": 2}
    assert contents.reserved == {"engine": 3}


def test_a_torn_commit_never_happened(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    writer = ManifestWriter(path, sync=False)
    writer.commit(add=[ENTRY])
    whole = path.stat().st_size
    writer.commit(add=[OTHER])
    writer.close()
    data = path.read_bytes()
    for length in range(whole, len(data)):
        path.write_bytes(data[:length])
        again = ManifestWriter(path, sync=False)
        assert again.entries() == [ENTRY]
        assert path.stat().st_size == whole
        again.commit(add=[OTHER])
        again.close()
        assert path.read_bytes() == data


def test_damage_before_the_last_commit_is_named(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    writer = ManifestWriter(path, sync=False)
    writer.commit(add=[ENTRY])
    writer.commit(add=[OTHER])
    writer.close()
    data = bytearray(path.read_bytes())
    data[30] ^= 4
    path.write_bytes(data)
    with pytest.raises(LakeError, match=r"m\.jsonl line 1 is damaged"):
        ManifestWriter(path, sync=False)


def test_a_follower_sees_appends_and_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = create_lake(tmp_path)
    writer = ManifestWriter(layout.manifest("collect"), sync=False)
    follower = ManifestFollower(layout)
    writer.commit(add=[ENTRY])
    assert follower.entries() == [ENTRY]
    before = follower.version()
    monkeypatch.setattr(manifest, "_SNAPSHOT_EVERY_LINES", 2)
    writer.commit(add=[OTHER], remove=[ENTRY.file])
    assert layout.manifest("collect").read_bytes().count(b"\n") == 1
    assert follower.version() != before
    assert follower.entries() == [OTHER]
    writer.commit(add=[ENTRY])
    writer.close()
    assert {entry.file for entry in follower.entries()} == {ENTRY.file, OTHER.file}


def test_an_idle_follower_is_not_fooled_by_an_inode_number_that_came_back(
    tmp_path: Path,
) -> None:
    layout = create_lake(tmp_path)
    path = layout.manifest("collect")
    follower = ManifestFollower(layout)
    writer = ManifestWriter(path, sync=False)
    writer.commit(add=[ENTRY])
    assert follower.entries() == [ENTRY]
    writer.close()
    others = [replace(ENTRY, file=f"t/{n}.parquet", first=n, last=n) for n in range(9)]
    second = ManifestWriter(tmp_path / "second.jsonl", sync=False)
    second.commit(add=others)
    second.close()
    path.write_bytes((tmp_path / "second.jsonl").read_bytes())  # same inode, longer, other content
    assert {entry.file for entry in follower.entries()} == {entry.file for entry in others}


def test_a_follower_forgets_a_commit_that_its_writer_took_back(tmp_path: Path) -> None:
    layout = create_lake(tmp_path)
    path = layout.manifest("collect")
    writer = ManifestWriter(path, sync=False)
    writer.commit(add=[ENTRY])
    before = path.read_bytes()
    follower = ManifestFollower(layout)
    writer.commit(reserved={"engine": 2})
    assert follower.entries() == [ENTRY]
    writer.close()
    path.write_bytes(before)  # fdatasync failed: the line is cut off again, then another is written
    again = ManifestWriter(path, sync=False)
    again.commit(add=[OTHER])
    again.close()
    assert {entry.file for entry in follower.entries()} == {ENTRY.file, OTHER.file}


def test_a_manifest_that_was_deleted_or_swapped_under_its_writer_heals(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    writer = ManifestWriter(path, sync=False)
    writer.commit(add=[ENTRY])
    assert not writer.heal()
    path.unlink()
    assert writer.heal()
    whole = path.read_bytes()
    path.rename(tmp_path / "away")
    path.write_bytes(whole)
    assert writer.heal()
    writer.commit(add=[OTHER])
    writer.close()
    assert set(read_manifest(path)[0].entries) == {ENTRY.file, OTHER.file}


def test_a_snapshot_that_fails_leaves_a_manifest_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.jsonl"
    writer = ManifestWriter(path, sync=False)
    monkeypatch.setattr(manifest, "_SNAPSHOT_EVERY_LINES", 1)

    def refuse(*_: object) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    writer.commit(add=[ENTRY])
    writer.commit(add=[OTHER])
    writer.close()
    assert set(read_manifest(path)[0].entries) == {ENTRY.file, OTHER.file}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("identity", ['{"layout": "2"}', '{"layout": null}', "[]", "", "{"])
def test_a_lake_whose_identity_makes_no_sense_is_refused(tmp_path: Path, identity: str) -> None:
    layout = create_lake(tmp_path)
    layout.identity.write_text(identity, encoding="utf-8")
    with pytest.raises(LakeError):
        open_lake(tmp_path)
