"""Puts libkvrt.so.0 (one file: wheels hold no links) and the licences into the wheel, and gives the wheel the tag of its platform. ./dev wheel calls it.

KVRT_WHEEL_NOTICES: a file with the licences of what is linked into the library."""
import os
import platform

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelLibrary(BuildHookInterface):
    def initialize(self, version, build_data):
        library = os.environ.get("KVRT_WHEEL_LIBRARY", "")
        if not os.path.isfile(library):
            raise SystemExit(f'KVRT_WHEEL_LIBRARY is "{library}", expected the path of libkvrt.so.0')
        build_data["force_include"][os.path.realpath(library)] = "kvrt/libkvrt.so.0"
        build_data["force_include"][os.path.join(self.root, "..", "..", "LICENSE")] = "kvrt/LICENSE"
        notices = os.environ.get("KVRT_WHEEL_NOTICES", "")
        if notices:
            build_data["force_include"][notices] = "kvrt/THIRD-PARTY.txt"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-linux_{platform.machine()}"
