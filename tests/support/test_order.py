"""The order of files among test processes."""

import re
import subprocess
import sys

import pytest

from tests.support.order import longest_first, takes_the_longest
from tests.support.processes import clean_env

FILES = {
    "tests/browser/test_a.py": range(2),
    "tests/controlplane/domain/test_many.py": range(100),
    "tests/controlplane/domain/test_few.py": range(2),
    "tests/wire/test_b.py": range(4),
}


def test_a_hundred_short_tests_are_longer_than_two_with_a_browser_and_these_than_four_on_the_wire():
    assert [file.split("/")[-1] for file in longest_first(FILES)] == [
        "test_many.py",
        "test_a.py",
        "test_b.py",
        "test_few.py",
    ]


@pytest.mark.parametrize(("worker", "longest"), [("gw0", True), ("gw1", False), ("gw2", True)])
def test_every_other_process_takes_the_longest(worker, longest):
    assert takes_the_longest(worker, ["gw2", "gw1", "gw0"]) is longest


def test_every_file_is_run_once_and_as_a_whole_by_one_process(tmp_path):
    code = "import pytest\n@pytest.mark.parametrize('n', range(3))\ndef test(n): pass\n"
    for number in range(6):
        (tmp_path / f"test_{number}.py").write_text(code)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    words = ["-p", "xdist", "-p", "tests.support.order", "-n", "2", "--dist", "loadfile", "-v", str(tmp_path)]
    argv = [sys.executable, "-m", "pytest", *words]
    done = subprocess.run(
        argv, cwd=tmp_path, env=clean_env(PYTEST_DISABLE_PLUGIN_AUTOLOAD=1), capture_output=True, text=True
    )
    ran = re.findall(r"\[(gw\d)\].* PASSED (\S+)::test\[\d\]", done.stdout)
    assert len(ran) == 18 and done.returncode == 0, done.stdout + done.stderr
    assert len({file for _, file in ran}) == len(set(ran)) == 6
