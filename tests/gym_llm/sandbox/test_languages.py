"""Every language whose compiler is on this machine, in the real sandbox."""

import asyncio
from typing import Any

import gymnasium as gym
import pytest

from gym_llm.errors import SandboxUnavailable
from gym_llm.sandbox import Limits, RunResult, Sandbox, compiler_for
from gym_llm.sandbox.languages import LANGUAGES, Compiled, CompileError, Compiler, language, mounts_for

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
    async with Sandbox(mounts=mounts_for(name)) as sandbox:
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


def test_environments_of_an_event_loop_share_a_compiler():
    async def main() -> None:
        first, second = (gym.make("gym_llm/Counter-v0").unwrapped for _ in range(2))
        compiler = await compiler_for(first, "cpp")
        assert await compiler_for(second, "c++") is compiler
        compiled = await compiler.compile("cpp", "int main() { return 3; }")
        assert isinstance(compiled, Compiled) and (await compiler.run(compiled)).exit_code == 3
        first.close()
        assert (await compiler.run(compiled)).exit_code == 3
        second.close()

    try:
        asyncio.run(main())
    except SandboxUnavailable as error:
        pytest.skip(str(error))


def test_a_program_is_given_arguments():
    async def main() -> list[bytes]:
        async with Sandbox(mounts=mounts_for("cpp")) as sandbox:
            compiler, printed = Compiler(sandbox), []
            python = "from __future__ import annotations\nimport sys\nprint(sys.argv[1:], open('x').read())"
            cpp = '#include <cstdio>\nint main(int n, char **a) { printf("%d %s", n, a[2]); }'
            for name, source in (("python", python), ("cpp", cpp)):
                compiled = await compiler.compile(name, source)
                assert isinstance(compiled, Compiled)
                printed.append((await compiler.run(compiled, arguments=["x", "a b"], files={"x": b"yes"})).stdout)
            return printed

    try:
        assert asyncio.run(main()) == [b"['x', 'a b'] yes\n", b"3 a b"]
    except SandboxUnavailable as error:
        pytest.skip(str(error))


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
        async with Sandbox(mounts=mounts_for("cpp")) as sandbox:
            limits = Limits(cpu_seconds=3, wall_seconds=3, memory_bytes=512 << 20)
            return await Compiler(sandbox).compile("cpp", source, limits=limits)

    try:
        result = asyncio.run(main())
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    assert isinstance(result, CompileError)
    assert "root:" not in result.output


def in_cpp(*sources: str, **options: Any) -> list[Compiled | CompileError]:
    """What these programs are compiled to, all at once."""

    async def main() -> list[Compiled | CompileError]:
        async with Sandbox(mounts=mounts_for("cpp")) as sandbox:
            compiler = Compiler(sandbox)
            return await asyncio.gather(*(compiler.compile("cpp", source, **options) for source in sources))

    try:
        return asyncio.run(main())
    except SandboxUnavailable as error:
        pytest.skip(str(error))


def test_the_same_program_is_compiled_once():
    first, second, other = in_cpp("int main() {}", "int main() {}", "int main() { }")
    assert first is second and other is not first


def test_what_is_beside_a_program_is_compiled_with_it():
    files = {"grader.cpp": b"int half(int);\nint main() { return half(8) - LEFT; }"}
    source = "int half(int n) { return n / 2; }"
    assert isinstance(in_cpp(source, files=files, arguments=["-DLEFT=4", "grader.cpp"])[0], Compiled)
    alone = in_cpp(source)[0]
    assert isinstance(alone, CompileError) and "main" in alone.output


def test_a_source_that_looks_like_another_with_files_is_compiled_by_itself():
    files = {"a.h": b"int main() {}"}
    right = '#include "a.h"'

    async def main() -> Compiled | CompileError:
        async with Sandbox(mounts=mounts_for("cpp")) as sandbox:
            compiler = Compiler(sandbox)
            for text in ("int main() {}" + right, "3 13 a.hint main() {}\0" + right):
                assert isinstance(await compiler.compile("cpp", text), CompileError)
            return await compiler.compile("cpp", right, files=files)

    try:
        assert isinstance(asyncio.run(main()), Compiled)
    except SandboxUnavailable as error:
        pytest.skip(str(error))


def test_warnings_and_any_number_of_errors_are_no_reason_to_end_the_compiler():
    warned, wrong = in_cpp(
        "int main() {\n" + "  { int n; int *p = &n; p == (void*)1 + 1; }\n" * 2000 + "}",
        "int main() {\n" + "  undeclared();\n" * 100_000 + "}",
    )
    assert isinstance(warned, Compiled) and "warning" in warned.said
    assert isinstance(wrong, CompileError)
    assert "undeclared" in wrong.output and len(wrong.output) <= 11_000 and "too much" not in wrong.output


def test_a_program_that_is_too_large_is_none():
    large = in_cpp("char a[50000000] = {1}; int main() {}")[0]
    assert isinstance(large, CompileError) and "more than 32 MiB" in large.output


@pytest.mark.parametrize(
    "source",
    [
        'asm(".incbin \\"/proc/1/environ\\"");int main() {}',
        'asm(".incbin \\"/dev/zero\\"");int main() {}',
        "#include __FILE__\nint main() {}",
        "constexpr long f(long n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\nconstexpr long a = f(60);\nint main() {}",
        "int main() {" + "(" * 200_000,
    ],
)
def test_what_a_source_asks_of_the_compiler_is_bounded(source: str):
    limits = Limits(cpu_seconds=5, wall_seconds=5, memory_bytes=512 << 20)
    assert all(isinstance(one, CompileError) for one in in_cpp(source, limits=limits))


def test_names_of_code_blocks_are_known():
    assert [language(name).name for name in ("C++", "py", "js", "sh", "golang")] == [
        "cpp", "python", "javascript", "bash", "go",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="language is one of python, cpp"):
        language("cobol")
