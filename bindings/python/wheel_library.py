"""Puts a library into a wheel (one file: wheels hold no links). ./dev wheel calls it.

KVRT_WHEEL_LIBRARY   the library's path. Without it the wheel of kvrt has none, and takes the system's libkvrt.so.0 or KVRT_LIBRARY's.
KVRT_WHEEL_PLATFORM  the platform that the library is for; by default a linux_x86_64 like this one"""
import os
import platform
import re

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelLibrary(BuildHookInterface):
    def initialize(self, version, build_data):
        date = os.environ.get("SOURCE_DATE_EPOCH", "0")
        if not re.fullmatch("[0-9]{1,10}", date):
            raise SystemExit(f'SOURCE_DATE_EPOCH is "{date}", expected seconds since 1970, 1 to 10 digits')
        name, library = self.config["library"], os.environ.get("KVRT_WHEEL_LIBRARY", "")
        if version == "editable" or not library and name == "libkvrt.so.0":
            return
        if not os.path.isfile(library):
            raise SystemExit(f'KVRT_WHEEL_LIBRARY is "{library}", expected the path of {name}')
        build_data["force_include"][os.path.realpath(library)] = f"kvrt/{name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ.get('KVRT_WHEEL_PLATFORM') or f'linux_{platform.machine()}'}"
