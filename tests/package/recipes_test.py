#!/usr/bin/env python3
"""What packages of others say of this one, held against the checkout: the Spack recipe is executed over stand-ins for Spack's
directives, the shell of the Apptainer definition is read by bash, the Lmod module file is run by Lua where its library is
there. Whether apt, Lmod and a container's system take them is tried by tests/package/deb_test (label slow)."""
import ctypes
import ctypes.util
import pathlib
import re
import subprocess
import sys
import types
import unittest

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
RECIPE = CHECKOUT / "packaging/spack/packages/longhaul/package.py"
DEFINITION = CHECKOUT / "packaging/apptainer/longhaul.def"
MODULE = CHECKOUT / "packaging/lmod/longhaul.lua"
CMAKE = "\n".join(path.read_text() for folder in (".", "cmake", "engine", "orchestrator", "worker", "base", "tests")
                  for path in sorted((CHECKOUT / folder).glob("CMakeLists.txt" if folder != "cmake" else "*.cmake")))
VERSION = re.search(r"^project\(longhaul VERSION ([0-9.]+)", CMAKE, re.M).group(1)
# Debian's packages of section [build], as Spack names them. Tools of the build and headers that come with others are left out.
SPACK_NAMES = {
    "cmake": "cmake", "ninja-build": "ninja", "pkg-config": "pkgconfig", "libfmt-dev": "fmt", "libspdlog-dev": "spdlog",
    "nlohmann-json3-dev": "nlohmann-json", "libtomlplusplus-dev": "tomlplusplus", "libyaml-dev": "libyaml", "libxxhash-dev": "xxhash",
    "zlib1g-dev": "zlib-api", "libzstd-dev": "zstd", "libssl-dev": "openssl", "libeigen3-dev": "eigen", "libdnnl-dev": "onednn",
    "libopenmpi-dev": "mpi", "libpcre2-dev": "pcre2", "libcpp-httplib-dev": "cpp-httplib", "libicu-dev": "icu4c",
    "libcld2-dev": "cld2", "libgumbo-dev": "gumbo-parser", "libbz2-dev": "bzip2", "liblzma-dev": "xz", "libcli11-dev": "cli11",
    "libsqlite3-dev": "sqlite", "libcurl4-openssl-dev": "curl"}
NOT_OF_SPACK = {"g++", "git", "ccache"}
# What a module file of Lmod may call, writing down what it does; `%s` are the prefix that is a folder and the file's own name.
LMOD = """
local done = {}
function help() end
function whatis() end
function pathJoin(a, b) return a .. "/" .. b end
function isDir(path) return path == "%s/share/longhaul/site-configs" end
function myFileName() return "%s" end
function LmodError(text) error("LmodError: " .. text, 0) end
function prepend_path(name, value) table.insert(done, "prepend " .. name .. " " .. value) end
function setenv(name, value) table.insert(done, "set " .. name .. " " .. value) end
function conflict(name) table.insert(done, "conflict " .. name) end
os.getenv = function(name) return nil end
"""


class Directives:
    """Spack's, as far as a recipe uses them: each call is written down."""

    def __init__(self):
        self.calls = []

    def module(self):
        def directive(name):
            def called(*positional, **named):
                self.calls.append((name, positional, named))
            return called
        found = types.ModuleType("spack.package")
        for name in ("version", "variant", "depends_on", "conflicts", "generator"):
            setattr(found, name, directive(name))
        for name in ("CMakePackage", "CudaPackage"):
            setattr(found, name, type(name, (), {}))
        return found

    def of(self, name):
        return [(positional, named) for called, positional, named in self.calls if called == name]


def recipe():
    said = Directives()
    sys.modules["spack"], sys.modules["spack.package"] = types.ModuleType("spack"), said.module()
    scope = {}
    exec(compile(RECIPE.read_text(), str(RECIPE), "exec"), scope)
    return scope["Longhaul"], said


class Spec:
    """A spec with these variants."""

    def __init__(self, cuda):
        self.cuda = cuda
        self.variants = {"cuda_arch": types.SimpleNamespace(value=("90",))}

    def satisfies(self, asked):
        return self.cuda and asked == "+cuda"


def packages(section):
    text = (CHECKOUT / "scripts/packages.txt").read_text().split(f"[{section}]\n")[1].split("\n[")[0]
    return {line for line in text.splitlines() if line and not line.startswith("#")}


def sections(definition):
    """{name: text} of an Apptainer definition; what stands before the first is the header."""
    parts = re.split(r"^%(\w+).*$", definition, flags=re.M)
    return {"header": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


class Spack(unittest.TestCase):
    def test_it_has_this_version_and_every_package_that_is_built_against(self):
        _, said = recipe()
        self.assertEqual([positional[0] for positional, _ in said.of("version")], [VERSION])
        wanted = {re.split("[@ +~]", positional[0])[0] for positional, _ in said.of("depends_on")}
        for package in packages("build") - NOT_OF_SPACK:
            self.assertIn(SPACK_NAMES.get(package, f"(no name for {package} in this test)"), wanted)

    def test_variants_that_are_asked_for_are_there(self):
        _, said = recipe()
        variants = {positional[0] for positional, _ in said.of("variant")} | {"cuda"}
        for positional, named in said.of("depends_on") + said.of("conflicts"):
            if when := named.get("when"):
                self.assertIn(when.lstrip("+~"), variants, positional)

    def test_options_are_those_of_cmake(self):
        longhaul, _ = recipe()
        for cuda in (False, True):
            package = longhaul()
            package.spec, package.define = Spec(cuda), lambda name, value: (name, value)
            package.define_from_variant = package.define
            given = dict(package.cmake_args())
            self.assertEqual(given["LONGHAUL_CUDA"], "ON" if cuda else "OFF")
            self.assertEqual(given.get("LONGHAUL_CUDA_ARCHITECTURES"), "90" if cuda else None)
            for name in given:
                if name.startswith("LONGHAUL_"):
                    self.assertIn(name, CMAKE)


class Apptainer(unittest.TestCase):
    parts = sections(DEFINITION.read_text())

    def test_it_has_the_sections_that_it_needs_and_no_unknown_one(self):
        self.assertEqual(set(self.parts),
                         {"header", "arguments", "files", "post", "environment", "runscript", "test", "help"})
        self.assertRegex(self.parts["header"], r"(?m)^Bootstrap: docker\nFrom: debian:12-slim$")

    def test_its_tarball_is_the_one_of_this_version(self):
        self.assertEqual(self.parts["arguments"].split(), [f"TARBALL=longhaul-{VERSION}-linux-x86_64.tar.zst"])
        self.assertEqual(self.parts["files"].split(), ["{{", "TARBALL", "}}", "/opt/longhaul.tar.zst"])
        self.assertIn("/opt/longhaul.tar.zst", self.parts["post"])

    def test_its_shell_is_read_by_bash(self):
        for name in ("post", "environment", "runscript", "test"):
            read = subprocess.run(["bash", "-n"], input=self.parts[name], text=True, capture_output=True, check=False)
            self.assertEqual((read.returncode, read.stderr), (0, ""), name)
        self.assertIn("/opt/longhaul/bin", self.parts["environment"])
        self.assertIn("/opt/longhaul/bin/longhaul doctor", self.parts["test"])


class Lua:
    """Lua 5.1's library."""

    def __init__(self):
        name = ctypes.util.find_library("lua5.1")
        self.library = ctypes.CDLL(name) if name else None

    def run(self, text):
        """What it returns, or the error, as text."""
        library, tostring = self.library, self.library.lua_tolstring
        library.luaL_newstate.restype, tostring.restype = ctypes.c_void_p, ctypes.c_char_p
        state = ctypes.c_void_p(library.luaL_newstate())
        try:
            library.luaL_openlibs(state)
            failed = library.luaL_loadstring(state, text.encode()) or library.lua_pcall(state, 0, 1, 0)
            said = (tostring(state, -1, None) or b"").decode()
            return f"error: {said}" if failed else said
        finally:
            library.lua_close(state)


class Lmod(unittest.TestCase):
    def setUp(self):
        self.lua = Lua()
        if not self.lua.library:
            print("not run: the module file, for want of liblua5.1")
            self.skipTest("no liblua5.1")

    def run_module(self, prefix, lines=""):
        place = "/apps/longhaul/share/longhaul/packaging/lmod/longhaul.lua"
        text = LMOD % (prefix, place) + lines + f"(function()\n{MODULE.read_text()}\nend)()\n" + 'return table.concat(done, "; ")'
        return self.lua.run(text)

    def test_within_the_tarball_it_finds_its_prefix(self):
        found = "/apps/longhaul/share/longhaul/packaging/lmod/../../../.."
        self.assertEqual(self.run_module(found), f"prepend PATH {found}/bin; set LONGHAUL_PREFIX {found}; conflict longhaul")

    def test_a_link_needs_the_prefix_and_a_wrong_one_is_refused(self):
        lines = 'os.getenv = function(name) return name == "LONGHAUL_PREFIX" and "/soft/l" or nil end\n'
        self.assertEqual(self.run_module("/soft/l", lines), "prepend PATH /soft/l/bin; set LONGHAUL_PREFIX /soft/l; conflict longhaul")
        self.assertRegex(self.run_module("/elsewhere", lines), "^error: LmodError: longhaul: /soft/l is no installation")


if __name__ == "__main__":
    unittest.main()
