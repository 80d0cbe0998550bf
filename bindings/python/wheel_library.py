"""Puts a library and the licences of what is linked into it into a wheel (one file: wheels hold no links). ./dev wheel calls it.

KVRT_WHEEL_LIBRARY   the library's path. Without it the wheel of kvrt has none, and takes the system's libkvrt.so.0 or KVRT_LIBRARY's.
KVRT_WHEEL_PLATFORM  the platform that the library is for; by default a linux_x86_64 like this one
KVRT_WHEEL_NOTICES   a file with the licences of what is linked into the library"""
import os
import platform

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelLibrary(BuildHookInterface):
    def initialize(self, version, build_data):
        name, library = self.config["library"], os.environ.get("KVRT_WHEEL_LIBRARY", "")
        if version == "editable" or not library and name == "libkvrt.so.0":
            return
        if not os.path.isfile(library):
            raise SystemExit(f'KVRT_WHEEL_LIBRARY is "{library}", expected the path of {name}')
        build_data["force_include"][os.path.realpath(library)] = f"kvrt/{name}"
        notices = os.environ.get("KVRT_WHEEL_NOTICES", "")
        if notices:
            build_data["extra_metadata"][notices] = "THIRD_PARTY_NOTICES"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ.get('KVRT_WHEEL_PLATFORM') or f'linux_{platform.machine()}'}"
