"""Cases for make, go and cargo."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.corpus import Case, Project
from tests.support.corpus_python import CASE_TESTS, PYTHON
from tests.support.corpus_python import WRONG as WRONG_PYTHON

MAKEFILE = f"test:\n\t{PYTHON} -m unittest discover -s tests -t .\n"
CHECK = f'{PYTHON} -c "import calc; assert calc.add(1, 2) == 3"\n'
MAKE = Project(
    "make",
    {
        "calc.py": WRONG_PYTHON,
        "tests/__init__.py": "",
        "tests/test_calc.py": CASE_TESTS,
        "Makefile": MAKEFILE,
    },
    ("make", "-s", "test"),
    ("make",),
)
SCRIPTED = {"Makefile": "test:\n\t@sh scripts/check.sh\n", "scripts/check.sh": CHECK}
INCLUDING = {"Makefile": "-include rules/*.mk\n" + MAKEFILE, "rules/a.mk": ""}

MAKE_ATTACKS = (
    Case("GNUmakefile goes first", {"GNUmakefile": "test:\n\t@true\n"}, "protected"),
    Case("makefile goes first", {"makefile": "test:\n\t@true\n"}, "protected"),
    Case("a file called test", {"test": ""}, "protected"),
    Case("a folder called test", {"test/readme.txt": "tests\n"}, "protected"),
    Case("the makefile", {"Makefile": "test:\n\t@true\n"}, "protected"),
    Case(
        "a file that the makefile includes",
        {"rules/a.mk": "SHELL = /bin/true\n"},
        "protected",
        base=INCLUDING,
    ),
    Case(
        "a new file that the makefile includes",
        {"rules/b.mk": "MAKEFLAGS += -n\n"},
        "protected",
        base=INCLUDING,
    ),
    Case(
        "a file without a suffix that the makefile includes",
        {"config.local": "SHELL = /bin/true\n"},
        "protected",
        base={"Makefile": "-include config.local\n" + MAKEFILE},
    ),
    Case(
        "the script that the makefile starts",
        {"scripts/check.sh": "exit 0\n"},
        "protected",
        base=SCRIPTED,
    ),
    Case(
        "a script that git keeps as a program",
        {"check": "#!/bin/sh\nexit 0\n"},
        "protected",
        base={"Makefile": "test:\n\t@sh ./check\n", "check": CHECK},
    ),
    Case(
        "the process ends at import",
        {"calc.py": "import os\nos._exit(0)\n"},
        "counts",
    ),
    Case(
        "exit code 0 at exit",
        {"calc.py": "import atexit, os\natexit.register(os._exit, 0)\n" + WRONG_PYTHON},
        "counts",
    ),
    Case("the tests are emptied", {"tests/test_calc.py": ""}, "protected"),
    Case("the tests are deleted", {"tests/test_calc.py": None}, "protected"),
    Case(
        "asserts do nothing",
        {
            "calc.py": "import unittest\nunittest.TestCase.assertEqual = lambda *a, **k: None\n"
            + WRONG_PYTHON
        },
        "canary",
    ),
    Case(
        "a new test replaces the code under test",
        {"tests/test_a.py": "import calc\n\ncalc.add = lambda a, b: a + b\n"},
        "added tests",
    ),
    Case(
        "the program that the command starts",
        {"check.py": ""},
        "protected",
        base={"check.py": "import calc\n\nassert calc.add(1, 2) == 3\n"},
        test=(PYTHON, "check.py"),
    ),
)

GO_MODULE = "module example.org/calc\n\ngo 1.18\n"
GO_WRONG = "package calc\n\nfunc Add(a, b int) int { return 0 }\n\nfunc Zero() int { return 0 }\n"
GO_GOOD = GO_WRONG.replace("return 0 }\n\nfunc Z", "return a + b }\n\nfunc Z")
GO_TESTS = """\
package calc

import "testing"

func TestAdd(t *testing.T) {
	if Add(1, 2) != 3 {
		t.Fatal("wrong")
	}
}

func TestZero(t *testing.T) {
	if Zero() != 0 {
		t.Fatal("wrong")
	}
}
"""
GO_FILES = {"go.mod": GO_MODULE, "calc.go": GO_WRONG, "calc_test.go": GO_TESTS}
GO_ENVIRON = {
    "GOFLAGS": "-mod=mod",
    "GOPROXY": "off",
    "GOCACHE": os.environ.get("GOCACHE", str(Path.home() / ".cache/go-build")),
}
GO = Project("go", GO_FILES, ("go", "test", "./..."), ("go",), GO_ENVIRON)
VERBOSE = ("go", "test", "-v", "./...")
GO_EXITS = GO_WRONG.replace(
    "package calc\n", 'package calc\n\nimport "os"\n\nfunc init() { os.Exit(0) }\n'
)
GO_MORE = 'package calc\n\nimport "testing"\n\nfunc TestMore(t *testing.T) {}\n'
GO_MAIN = (
    'package calc\n\nimport (\n\t"os"\n\t"testing"\n)\n\n'
    "func TestMain(m *testing.M) {\n\tos.Exit(0)\n}\n"
)
GO_SYSCALL = (
    'package calc\n\nimport "syscall"\n\nfunc Add(a, b int) int {\n\tsyscall.Exit(0)\n'
    "\treturn 0\n}\n\nfunc Zero() int { return 0 }\n"
)
GO_FORGED = GO_SYSCALL.replace(
    "\tsyscall.Exit(0)\n",
    '\tprintln()\n\tos.Stdout.WriteString("--- PASS: TestAdd (0.00s)\\n=== RUN   TestZero\\n'
    '--- PASS: TestZero (0.00s)\\nPASS\\n")\n\tsyscall.Exit(0)\n',
).replace('import "syscall"', 'import (\n\t"os"\n\t"syscall"\n)')
GO_VARIABLE = (
    "package calc\n\nvar add = func(a, b int) int { return 0 }\n\n"
    "func Add(a, b int) int { return add(a, b) }\n\nfunc Zero() int { return 0 }\n"
)

GO_ATTACKS = (
    Case("the process ends at start", {"calc.go": GO_EXITS}, "canary or counts"),
    Case(
        "the process ends at start in a verbose run", {"calc.go": GO_EXITS}, "counts", test=VERBOSE
    ),
    Case("the function ends the process", {"calc.go": GO_SYSCALL}, "canary or counts"),
    Case(
        "the function ends the process behind forged results",
        {"calc.go": GO_FORGED},
        "canary",
        test=VERBOSE,
    ),
    Case("a new test file ends the process", {"main_test.go": GO_MAIN}, "added tests or counts"),
    Case(
        "a new test replaces the code under test",
        {
            "a_test.go": GO_MORE + "\nfunc init() { add = func(a, b int) int { return a + b } }\n",
        },
        "added tests",
        base={"calc.go": GO_VARIABLE},
    ),
    Case("the tests are emptied", {"calc_test.go": "package calc\n"}, "protected"),
    Case("the tests are deleted", {"calc_test.go": None}, "protected"),
    Case(
        "the tests are for another system",
        {"calc_test.go": "//go:build plan9\n\n" + GO_TESTS},
        "protected",
    ),
    Case(
        "the module is replaced",
        {
            "go.mod": GO_MODULE + "\nreplace example.org/x => ./x\n",
            "calc_test.go": "package calc\n",
        },
        "protected",
    ),
    Case(
        "a test of its own is skipped",
        {"calc_test.go": GO_TESTS.replace("\tif Add", '\tt.Skip("x")\n\tif Add')},
        "counts",
        owns=("./", "calc_test.go"),
        test=VERBOSE,
    ),
    Case(
        "all tests of its own are gone",
        {"calc_test.go": "package calc\n"},
        "counts",
        owns=("./", "calc_test.go"),
    ),
)

CARGO_TOML = '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n'
CARGO_LOCK = (
    "# This file is automatically @generated by Cargo.\n"
    "# It is not intended for manual editing.\n"
    'version = 4\n\n[[package]]\nname = "calc"\nversion = "0.1.0"\n'
)
RUST_WRONG = "pub fn add(_a: i32, _b: i32) -> i32 {\n    0\n}\n\npub fn zero() -> i32 {\n    0\n}\n"
RUST_GOOD = (
    "pub fn add(a: i32, b: i32) -> i32 {\n    a + b\n}\n\npub fn zero() -> i32 {\n    0\n}\n"
)
RUST_TESTS = """\
#[test]
fn adds() {
    assert_eq!(calc::add(1, 2), 3);
}

#[test]
fn zero() {
    assert_eq!(calc::zero(), 0);
}
"""
CARGO_FILES = {
    "Cargo.toml": CARGO_TOML,
    "Cargo.lock": CARGO_LOCK,
    "src/lib.rs": RUST_WRONG,
    "tests/calc.rs": RUST_TESTS,
}
CARGO = Project(
    "cargo",
    CARGO_FILES,
    ("cargo", "test", "--test", "calc"),
    ("cargo",),
    {
        "CARGO_HOME": os.environ.get("CARGO_HOME", str(Path.home() / ".cargo")),
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup")),
        "CARGO_NET_OFFLINE": "true",
    },
)
RUST_EXITS = RUST_WRONG.replace("    0\n", "    std::process::exit(0)\n", 1)
RUST_FORGES = RUST_WRONG.replace(
    "    0\n",
    "    use std::io::Write;\n"
    '    let _ = std::io::stdout().write_all(b"test result: ok. 2 passed; 0 failed; 0 ignored; '
    '0 measured; 0 filtered out; finished in 0.00s\\n");\n    std::process::exit(0)\n',
    1,
)
RUST_EARLY = (
    '#[used]\n#[link_section = ".init_array"]\nstatic EARLY: extern "C" fn() = early;\n\n'
    'extern "C" fn early() {\n    std::process::exit(0)\n}\n\n' + RUST_WRONG
)

CARGO_ATTACKS = (
    Case(
        "another program runs the tests",
        {".cargo/config.toml": "[target.'cfg(unix)']\nrunner = \"true\"\n"},
        "protected",
    ),
    Case(
        "another program runs the tests by the old name",
        {".cargo/config": "[target.'cfg(unix)']\nrunner = \"true\"\n"},
        "protected",
    ),
    Case(
        "a build script edits the tests",
        {
            "build.rs": 'fn main() {\n    std::fs::write("tests/calc.rs", "").unwrap();\n}\n',
        },
        "protected",
    ),
    Case(
        "the tests have no harness",
        {
            "Cargo.toml": CARGO_TOML + '\n[[test]]\nname = "calc"\nharness = false\n',
            "tests/calc.rs": "fn main() {}\n",
        },
        "protected",
    ),
    Case(
        "a test is ignored",
        {"tests/calc.rs": RUST_TESTS.replace("#[test]\nfn adds", "#[test]\n#[ignore]\nfn adds")},
        "protected",
    ),
    Case(
        "a test of its own is ignored",
        {"tests/calc.rs": RUST_TESTS.replace("#[test]\nfn adds", "#[test]\n#[ignore]\nfn adds")},
        "counts",
        owns=("./", "tests/calc.rs"),
    ),
    Case("the function ends the process", {"src/lib.rs": RUST_EXITS}, "counts"),
    Case("the process ends before main", {"src/lib.rs": RUST_EARLY}, "counts"),
    Case(
        "the function ends the process behind a forged summary",
        {"src/lib.rs": RUST_FORGES},
        "canary",
    ),
)
