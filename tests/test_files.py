"""Temporary names: nobody shares one, and what a killed process left under one goes."""

import os
import subprocess
import sys
import threading

import pytest

from actionless import files
from actionless.errors import ActionlessError
from actionless.files import clear_leftovers, replace_folder, unique_aside, write_durably, written_aside


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def ended_process():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_two_writers_of_one_file_do_not_meet(tmp_path):
    target = tmp_path / "file"
    with written_aside(target) as first:
        first.write_text("first")
        with written_aside(target) as second:
            assert second != first
            second.write_text("second")
        assert target.read_text() == "second"
    assert target.read_text() == "first"
    assert names(tmp_path) == ["file"]


def test_an_error_leaves_the_old_file_alone(tmp_path):
    write_durably(tmp_path / "file", b"old")
    with pytest.raises(ZeroDivisionError), written_aside(tmp_path / "file") as aside:
        aside.write_text("half of the n")
        raise ZeroDivisionError
    assert (tmp_path / "file").read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_many_processes_write_one_file_and_each_writes_it_whole(tmp_path):
    code = """
import pathlib, sys
from actionless.files import write_durably
for _ in range(40):
    write_durably(pathlib.Path(sys.argv[1]), sys.argv[2].encode() * 100_000)
"""
    target = tmp_path / "file"
    writers = [subprocess.Popen([sys.executable, "-c", code, target, letter]) for letter in "abc"]
    while any(writer.poll() is None for writer in writers):
        if target.exists():
            content = target.read_bytes()
            assert len(content) == 100_000
            assert len(set(content)) == 1
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert names(tmp_path) == ["file"]


def test_leftovers_of_a_dead_process_go(tmp_path, monkeypatch, ended_process):
    target = tmp_path / "file"
    monkeypatch.setattr(os, "getpid", lambda: ended_process)
    unique_aside(target).write_text("half of the n")
    unique_aside(target, "old").mkdir()
    monkeypatch.undo()
    write_durably(target, b"new")
    assert names(tmp_path) == ["file"]


def test_what_others_still_write_stays(tmp_path, monkeypatch, ended_process):
    target = tmp_path / "file"
    mine = unique_aside(target)
    # The same process id on another machine that shares the disk: nothing says whether it lives.
    monkeypatch.setattr(os, "getpid", lambda: ended_process)
    monkeypatch.setattr(files, "_this_machine", lambda: "00000000")
    elsewhere = unique_aside(target)
    monkeypatch.undo()
    other_file = tmp_path / unique_aside(tmp_path / "file.txt").name.replace(str(os.getpid()), str(ended_process))
    foreign = tmp_path / ".file.notes"
    for path in (mine, elsewhere, other_file, foreign):
        path.touch()
    clear_leftovers(target)
    assert all(path.exists() for path in (mine, elsewhere, other_file, foreign))


def test_a_folder_takes_the_place_of_another(tmp_path):
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    replace_folder(tmp_path / "new", tmp_path / "old")
    assert names(tmp_path) == ["old"]
    assert names(tmp_path / "old") == ["new"]


def test_many_put_a_folder_in_the_same_place(tmp_path):
    folder, errors = tmp_path / "folder", []

    def put(number):
        try:
            for _ in range(50):
                aside = unique_aside(folder)
                aside.mkdir()
                for part in ("a", "b"):
                    (aside / part).write_text(str(number))
                replace_folder(aside, folder)
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=put, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert names(tmp_path) == ["folder"]
    assert (folder / "a").read_text() == (folder / "b").read_text()


def test_a_folder_does_not_replace_a_file(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("kept")
    with pytest.raises(NotADirectoryError):
        replace_folder(tmp_path / "folder", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "kept"


def test_a_disk_that_refuses_is_named(tmp_path):
    message = r"missing/.*: No such file or directory; make room"
    with pytest.raises(ActionlessError, match=message), files.disk_trouble(tmp_path, "make room"):
        write_durably(tmp_path / "missing" / "file", b"")
