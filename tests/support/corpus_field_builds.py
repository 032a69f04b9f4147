"""Honest work on C, shell, Perl, Ruby and PHP, and on documents and data that scripts check."""

from __future__ import annotations

from tests.support.corpus import Case, Project
from tests.support.corpus_field import GREEN, files
from tests.support.corpus_python import PYTHON

C = files("""\
--- Makefile
CFLAGS ?= -O1 -Wall -Werror
OBJECTS = build/text.o

.PHONY: all check clean
all: build/shout

build/%.o: src/%.c src/text.h
	@mkdir -p build
	$(CC) $(CFLAGS) -Isrc -c $< -o $@

build/shout: src/main.c $(OBJECTS)
	$(CC) $(CFLAGS) -Isrc $^ -o $@

build/test_text: tests/test_text.c $(OBJECTS)
	$(CC) $(CFLAGS) -Isrc $^ -o $@

check: build/test_text build/shout
	./build/test_text
	test "$$(./build/shout abc)" = ABC

clean:
	rm -rf build
--- .gitignore
build/
--- src/text.h
void upper(char *text);
int letters(const char *text);
--- src/text.c
#include "text.h"

#include <ctype.h>

void upper(char *text) {
    for (; *text; text++) *text = (char)tolower((unsigned char)*text);
}

int letters(const char *text) {
    int count = 0;
    for (; *text; text++) count += isalpha((unsigned char)*text) != 0;
    return count;
}
--- src/main.c
#include <stdio.h>

#include "text.h"

int main(int count, char **words) {
    for (int at = 1; at < count; at++) {
        upper(words[at]);
        puts(words[at]);
    }
    return 0;
}
--- tests/test_text.c
#include <stdio.h>
#include <string.h>

#include "text.h"

static int failed;

static void check(int ok, const char *name) {
    printf("%s %s\\n", ok ? "ok" : "FAIL", name);
    failed += !ok;
}

int main(void) {
    char text[] = "abc";
    upper(text);
    check(strcmp(text, "ABC") == 0, "upper");
    check(letters("a1b2") == 2, "letters");
    printf("%d failed\\n", failed);
    return failed != 0;
}
""")
UPPER = {"src/text.c": C["src/text.c"].replace("tolower", "toupper")}
WORDS = {
    "src/words.h": "int words(const char *text);\n",
    "src/words.c": '#include "words.h"\n\nint words(const char *text) {\n    int count = 0, in = 0;'
    "\n    for (; *text; text++) {\n        count += *text != ' ' && !in;\n"
    "        in = *text != ' ';\n    }\n    return count;\n}\n",
}
TEST_WORDS = (
    '#include <assert.h>\n\n#include "words.h"\n\nint main(void) {\n    assert(words("a bc")'
)
TEST_WORDS += " == 2);\n    return 0;\n}\n"
MAKE_CHECK = Project("make-check-in-c", C, "make check", ("make", "cc"))
C_CASES = (
    Case("a bug", UPPER),
    Case("a bug, two jobs and quiet", UPPER, test="make -s -j2 check"),
    Case("a bug, with a variable and a clean start", UPPER, test="make clean && make check"
         " CFLAGS='-g -O0'"),
    Case("a bug in a folder that make enters", UPPER, base={"top/Makefile":
         "all:\n\t$(MAKE) -C .. check\n"}, test="make -C top"),
    Case("an agent leaves what it built", UPPER, script="make -s all && ./build/shout a"),
    Case("a new file with a target that is listed", {**UPPER, **WORDS,
         "tests/test_words.c": TEST_WORDS, "Makefile": C["Makefile"].replace("OBJECTS = ",
         "OBJECTS = build/words.o ") + "\nwords: tests/test_words.c"
         " src/words.c\n\t$(CC) -Isrc $^ -o build/w && build/w\n"}, owns=("./", "Makefile")),
    Case("a bug by a script of the shell", UPPER, base={"tests/run.sh": "#!/bin/sh\nset -eu\ncc"
         ' -Isrc src/*.c -o "${TMPDIR:-/tmp}/shout.$$"\nout=$("${TMPDIR:-/tmp}/shout.$$" abc)\n'
         'rm "${TMPDIR:-/tmp}/shout.$$"\n[ "$out" = ABC ] && echo "ok 1 - shouts" ||'
         ' { echo "not ok 1"; exit 1; }\n'}, test="sh tests/run.sh"),
)  # fmt: skip
SHELL = files("""\
--- bin/backup
#!/bin/sh
# backup FILE...: copies of files beside them
set -eu
for file in $@; do
  cp -p "$file" "$file.bak"
done
--- test/lib.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
backup=$PWD/bin/backup
--- test/t-plain.sh
. test/lib.sh
echo 1 > "$folder/a"
sh "$backup" "$folder/a"
cmp "$folder/a" "$folder/a.bak"
--- test/t-spaces.sh
. test/lib.sh
echo 1 > "$folder/a b"
sh "$backup" "$folder/a b"
cmp "$folder/a b" "$folder/a b.bak"
--- test/run.sh
#!/bin/sh
set -u
number=0 failed=0
for test in test/t-*.sh; do
  number=$((number + 1))
  if sh -eu "$test"; then echo "ok $number - $test"; else
    echo "not ok $number - $test"; failed=$((failed + 1)); fi
done
echo "1..$number"
[ "$failed" = 0 ]
""")
LOOP = "set -e; for t in test/t-*.sh; do echo $t; sh -eu $t; done"
QUOTED = {"bin/backup": SHELL["bin/backup"].replace("$@", '"$@"')}
SH = Project("shell-scripts", SHELL, "sh test/run.sh")
T_NONE = '. test/lib.sh\nsh "$backup"\ntest -z "$(ls "$folder")"\n'
SH_CASES = (
    Case("a bug and lines of TAP", QUOTED),
    Case("a bug and a loop over scripts", QUOTED, test=LOOP),
    Case("a bug with a new test", {**QUOTED, "test/t-none.sh": T_NONE}),
    Case("a program becomes executable", QUOTED, script="chmod +x bin/backup"),
    Case("a bug and prove", QUOTED, test="prove -e 'sh -eu' test/t-tap.t", base={"test/t-tap.t":
         'echo 1..1\nfolder=$(mktemp -d)\ntouch "$folder/a b"\nsh bin/backup "$folder/a b" ||'
         ' printf "not "\necho "ok 1 - copies"\nrm -r "$folder"\n'}),
)  # fmt: skip
PERL = files("""\
--- lib/Trim.pm
package Trim;
use strict;
use warnings;

sub trim { my ($text) = @_; $text =~ s/^\\s+//; return $text }

1;
--- t/trim.t
use strict;
use warnings;
use Test::More tests => 2;
use Trim;

is(Trim::trim("  a"), "a", "left");
subtest "right" => sub {
    plan tests => 1;
    is(Trim::trim("a  "), "a", "spaces");
};
""")
TRIMMED = {"lib/Trim.pm": PERL["lib/Trim.pm"].replace("s/^\\s+//", "s/^\\s+|\\s+$//g")}
PROVE = Project("prove", PERL, "prove -l -r t", ("prove", "perl"))
T_MORE = 'use Test::More;\nuse Trim;\nis(Trim::trim(""), "", "nothing");\ndone_testing;\n'
PROVE_CASES = (
    Case("a bug", TRIMMED),
    Case("a bug and all names", TRIMMED, test="prove -lv t/trim.t"),
    Case("a bug with a new test", {**TRIMMED, "t/more.t": T_MORE}),
    Case("documentation in the module", {"lib/Trim.pm": TRIMMED["lib/Trim.pm"]
         + "\n__END__\n\n=head1 NAME\n\nTrim - trims\n"}, base=TRIMMED, more=GREEN),
)  # fmt: skip
RUBY = files("""\
--- lib/stack.rb
class Stack
  def initialize = @all = []
  def push(one) = @all.push(one)
  def pop = @all.shift
end
--- test/stack_test.rb
require "minitest/autorun"
require "stack"

class StackTest < Minitest::Test
  def test_the_last_comes_first
    stack = Stack.new
    stack.push(1)
    stack.push(2)
    assert_equal 2, stack.pop
  end

  def test_nothing
    assert_nil Stack.new.pop
  end
end
""")
POPPED = {"lib/stack.rb": RUBY["lib/stack.rb"].replace("shift", "pop")}
MINITEST = Project("minitest", RUBY, "ruby -Ilib -Itest test/stack_test.rb", ("ruby",))
MINITEST_CASES = (
    Case("a bug", POPPED),
    Case("a bug with a seed and all names", POPPED,
         test="ruby -Ilib test/stack_test.rb --verbose --seed 7"),
)  # fmt: skip
PHP = Project(
    "php-script",
    {
        "src/vat.php": "<?php\nfunction vat(int $cents): int { return $cents * 20; }\n",
        "tests/run.php": "<?php\nrequire __DIR__ . '/../src/vat.php';\n"
        'if (vat(100) !== 20) { fwrite(STDERR, "FAIL vat\\n"); exit(1); }\necho "OK\\n";\n',
    },
    "php -l src/vat.php && php tests/run.php",
    ("php",),
)
PHP_CASES = (
    Case("a bug", {"src/vat.php": PHP.files["src/vat.php"].replace("* 20", "* 20 / 100")}),
)
CMAKE = Project(
    "ctest",
    {
        **{k: v for k, v in C.items() if k != "Makefile"},
        "CMakeLists.txt": "cmake_minimum_required(VERSION 3.13)\nproject(text C)\n"
        "enable_testing()\nadd_library(text src/text.c)\n"
        "target_include_directories(text PUBLIC src)\n"
        "add_executable(test_text tests/test_text.c)\ntarget_link_libraries(test_text text)\n"
        "add_test(NAME text COMMAND test_text)\n",
    },
    "cmake -S . -B build && cmake --build build && cd build && ctest --output-on-failure",
    ("cmake", "ctest", "cc", "make"),
)
CMAKE_CASES = (
    Case("a bug", UPPER),
    Case("an agent leaves what it built", UPPER, script="cmake -S . -B build >/dev/null"),
)
LINKS = """\
import re
import sys
from pathlib import Path

broken = [f"{page}: {link}" for page in Path("docs").rglob("*.md")
          for link in re.findall(r"\\]\\(([^)#:]+)\\)", page.read_text())
          if not (page.parent / link).exists()]
print(*broken or ["all links lead somewhere"], sep="\\n")
sys.exit(bool(broken))
"""
GENERATOR = """\
import json

names = json.load(open("schema/names.json"))
with open("names.py", "w") as file:
    file.write("# Generated. Do not edit.\\n")
    file.writelines(f"{name.upper()} = {number}\\n" for number, name in enumerate(names))
"""
CHECKED = Project(
    "checks-of-files",
    {
        "docs/index.md": "[usage](usage.md) [web](https://example.org)\n",
        "docs/more/deep.md": "[up](../index.md#top)\n",
        "tools/links.py": LINKS,
        "tools/generate.py": GENERATOR,
        "schema/names.json": '["red", "green", "blue"]\n',
        "names.py": "# Generated. Do not edit.\nRED = 0\nGREEN = 1\n",
        "data/ok.json": '{"a": 1}\n',
        "data/new.json": '{"a": 1,}\n',
        "db/schema.sql": "CREATE TABLE a (id INTEGER PRIMARY KEY, name TEXT UNIQUE);\n",
    },
    (PYTHON, "tools/links.py"),
)
NAMES = "# Generated. Do not edit.\nRED = 0\nGREEN = 1\nBLUE = 2\n"
CHECKED_CASES = (
    Case("a broken link", {"docs/usage.md": "# Usage\n"}),
    Case("what a generator makes is committed", {"names.py": NAMES}, owns=("names.py",),
         script="git add names.py",
         test=f"{PYTHON} tools/generate.py && git diff --exit-code"),
    Case("a comma in a file of JSON", {"data/new.json": '{"a": 1}\n'},
         test=f"for f in data/*.json; do {PYTHON} -m json.tool $f >/dev/null || exit 1; done"),
    Case("a table of a database", {"db/schema.sql": "CREATE TABLE a (id INTEGER PRIMARY KEY,"
         " name TEXT UNIQUE, age INTEGER NOT NULL DEFAULT 0);\n"},
         base={"db/check.sql": "INSERT INTO a (name, age) VALUES ('x', 3);\n"},
         test=f"cat db/schema.sql db/check.sql | {PYTHON} -c 'import sqlite3, sys; "
         'sqlite3.connect(":memory:").executescript(sys.stdin.read())' "'"),
)  # fmt: skip
FIELD = (
    (MAKE_CHECK, C_CASES),
    (SH, SH_CASES),
    (PROVE, PROVE_CASES),
    (MINITEST, MINITEST_CASES),
    (PHP, PHP_CASES),
    (CMAKE, CMAKE_CASES),
    (CHECKED, CHECKED_CASES),
)
