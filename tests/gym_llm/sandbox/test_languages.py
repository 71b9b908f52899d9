"""Every language whose compiler is on this machine, in the real sandbox."""

import asyncio

import pytest

from gym_llm.errors import SandboxUnavailable
from gym_llm.sandbox import Limits, RunResult, Sandbox
from gym_llm.sandbox.languages import LANGUAGES, Compiled, CompileError, Compiler, box_for, language

pytestmark = pytest.mark.slow

# ruff: noqa: E501
ECHO = {
    "python": "print(input()[::-1])",
    "cpp": '#include <bits/stdc++.h>\nint main() { std::string s; std::cin >> s; std::reverse(s.begin(), s.end()); std::cout << s << "\\n"; }',
    "c": '#include <stdio.h>\n#include <string.h>\nint main(void) { char s[99]; scanf("%98s", s); for (int i = strlen(s); i--;) putchar(s[i]); putchar(10); }',
    "javascript": "console.log(require('fs').readFileSync(0, 'utf8').trim().split('').reverse().join(''))",
    "java": "import java.util.*;\npublic class Main { public static void main(String[] a) { System.out.println(new StringBuilder(new Scanner(System.in).next()).reverse()); } }",
    "rust": 'use std::io;\nfn main() { let mut s = String::new(); io::stdin().read_line(&mut s).unwrap(); println!("{}", s.trim().chars().rev().collect::<String>()); }',
    "go": 'package main\nimport "fmt"\nfunc main() { var s string; fmt.Scan(&s); for i := len(s) - 1; i >= 0; i-- { fmt.Print(string(s[i])) }; fmt.Println() }',
    "bash": "read line; echo $line | rev",
}
FOREVER = {
    "python": "while True: pass",
    "cpp": "int main() { volatile int i = 0; while (true) i = i + 1; }",
    "c": "int main(void) { volatile int i = 0; while (1) i = i + 1; }",
    "javascript": "while (true) {}",
    "java": "public class Main { public static void main(String[] a) { int i = 0; while (i >= 0) i = i * 2 % 7; } }",
    "rust": "fn main() { let mut i: u64 = 1; loop { i = i.wrapping_mul(3); if i == 0 { break } } }",
    "go": "package main\nfunc main() { i := 1; for i > 0 { i = i * 2 % 7 } }",
    "bash": "while true; do :; done",
}
TYPED = sorted(name for name, one in LANGUAGES.items() if one.compile is not None)


async def _played(name: str, source: str, stdin: bytes, limits: Limits | None) -> RunResult | CompileError:
    async with Sandbox(box=box_for(name)) as sandbox:
        compiler = Compiler(sandbox)
        compiled = await compiler.compile(name, source)
        assert await compiler.compile(name, source) == compiled
        return (
            compiled if isinstance(compiled, CompileError) else await compiler.run(compiled, stdin=stdin, limits=limits)
        )


def played(name: str, source: str, stdin: bytes = b"", limits: Limits | None = None) -> RunResult | CompileError:
    try:
        return asyncio.run(_played(name, source, stdin, limits))
    except SandboxUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_program_is_compiled_and_run(name: str):
    result = played(name, ECHO[name], b"abc\n")
    assert isinstance(result, RunResult)
    assert (result.stdout.strip(), result.ok) == (b"cba", True), result.stderr


@pytest.mark.parametrize("name", LANGUAGES)
def test_an_endless_program_is_ended(name: str):
    result = played(name, FOREVER[name], limits=Limits(cpu_seconds=1))
    assert isinstance(result, RunResult)
    assert result.limit == "cpu"


@pytest.mark.parametrize("name", TYPED)
def test_what_cannot_be_compiled_says_why(name: str):
    result = played(name, "this is no program ;")
    assert isinstance(result, CompileError)
    assert "main" in result.output.lower()


@pytest.mark.parametrize(
    "source",
    [
        '#include "/etc/shadow"\nint main() {}',
        "#include </dev/zero>\nint main() {}",
        "template <int N> struct A { A<N + 1> a; A<N + 2> b; }; A<0> a; int main() {}",
        "char a[2000000000] = {1}; int main() {}",
        "#define A(x) x x x x x x x x\n#define B(x) A(A(A(x)))\nint a[] = { B(B(B(1,))) }; int main() {}",
    ],
)
def test_compiling_is_bounded(source: str):
    async def main() -> Compiled | CompileError:
        async with Sandbox(box=box_for("cpp")) as sandbox:
            limits = Limits(cpu_seconds=3, wall_seconds=3, memory_bytes=512 << 20)
            return await Compiler(sandbox).compile("cpp", source, limits=limits)

    try:
        result = asyncio.run(main())
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    assert isinstance(result, CompileError)
    assert "root:" not in result.output


def test_names_of_code_blocks_are_known():
    assert [language(name).name for name in ("C++", "py", "js", "sh", "golang")] == [
        "cpp", "python", "javascript", "bash", "go",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="language is one of python, cpp"):
        language("cobol")
