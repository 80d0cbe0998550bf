"""Conan 2: conan create packaging/conan [-o "&:shared=True"] [-o "&:tools=True"]. Not tried against ConanCenter: it was not at hand."""
import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, mkdir, rename, rm, rmdir
from conan.tools.gnu import PkgConfigDeps

required_conan_version = ">=2.0.9"


class KvrtConan(ConanFile):
    name = "kvrt"
    description = "Embeddable LLM inference with persistent sessions"
    license = "MIT"
    topics = ("llm", "inference", "gguf", "kv-cache")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False], "tools": [True, False]}
    default_options = {"shared": False, "fPIC": True, "tools": False}
    implements = ["auto_shared_fpic"]

    @property
    def _root(self):
        return os.path.join(self.recipe_folder, os.pardir, os.pardir)

    @property
    def _two_libraries(self):
        """The program needs the shared one. Those who link the static one must not find it: CMake and the linker would prefer it."""
        return self.options.tools and not self.options.shared

    def set_version(self):
        text = load(self, os.path.join(self._root, "CMakeLists.txt"))
        self.version = re.search(r"project\(kvrt VERSION ([\d.]+)", text).group(1)

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "packaging/*", "include/*", "runtime/*", "storage/*", "cuda/*", "bindings/cpp/*", "bindings/cli/*"):
            copy(self, pattern, self._root, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        self.requires("libsodium/1.0.20")
        self.requires("pcre2/10.44")
        self.requires("sqlite3/[>=3.45 <4]")
        self.requires("xxhash/0.8.3")
        self.requires("zstd/[>=1.5 <1.6]")
        if self.options.tools:
            self.requires("cli11/2.4.2")
            self.requires("fmt/11.1.4")
            self.requires("nlohmann_json/3.11.3")

    def build_requirements(self):
        self.tool_requires("cmake/[>=3.22 <4]")
        self.tool_requires("pkgconf/[>=2.1 <3]")

    def validate(self):
        check_min_cppstd(self, 20)
        if str(self.settings.os) != "Linux" or str(self.settings.arch) != "x86_64":
            raise ConanInvalidConfiguration(f"kvrt: expected Linux on x86_64, found {self.settings.os} on {self.settings.arch}")

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables.update({"KVRT_TESTS": False, "KVRT_SAMPLES": False, "KVRT_CUDA": "OFF", "KVRT_STATIC": not self.options.shared,
                                          "KVRT_TOOLS": bool(self.options.tools)})
        toolchain.generate()
        CMakeDeps(self).generate()
        PkgConfigDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        for licence in ("LICENSE", "packaging/licenses/*"):
            copy(self, licence, self.source_folder, os.path.join(self.package_folder, "licenses"), keep_path=False)
        CMake(self).install()
        # Consumers get the files of Conan's own generators.
        rmdir(self, os.path.join(self.package_folder, "lib", "cmake"))
        rmdir(self, os.path.join(self.package_folder, "lib", "pkgconfig"))
        rmdir(self, os.path.join(self.package_folder, "share", "doc"))
        if self._two_libraries:
            mkdir(self, os.path.join(self.package_folder, "lib", "static"))
            rename(self, os.path.join(self.package_folder, "lib", "libkvrt.a"), os.path.join(self.package_folder, "lib", "static", "libkvrt.a"))
        elif not self.options.shared:
            rm(self, "libkvrt.so*", os.path.join(self.package_folder, "lib"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "kvrt")
        libkvrt = self.cpp_info.components["libkvrt"]
        libkvrt.set_property("cmake_target_name", "kvrt::kvrt")
        libkvrt.set_property("pkg_config_name", "kvrt")
        libkvrt.libs = ["kvrt"]
        if self._two_libraries:
            libkvrt.libdirs = [os.path.join("lib", "static")]
        libkvrt.requires = ["libsodium::libsodium", "pcre2::pcre2-8", "sqlite3::sqlite", "xxhash::xxhash", "zstd::zstd"]
        if self.options.tools:
            libkvrt.requires += ["cli11::cli11", "fmt::fmt", "nlohmann_json::nlohmann_json"]
        if not self.options.shared:
            libkvrt.system_libs = ["m", "dl", "pthread", "stdc++"]
        cpp = self.cpp_info.components["cpp"]
        cpp.set_property("cmake_target_name", "kvrt::cpp")
        cpp.libs, cpp.libdirs, cpp.requires = [], [], ["libkvrt"]
