"""How the peer is compiled, by the processor."""
import re
import unittest

import peers

PLAIN = "processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512_vnni\nmodel name : amx_tile\n\n"
AMX = "processor\t: 0\nflags\t\t: fpu avx2 avx512f amx_bf16 avx512_fp16 amx_tile amx_int8 flush_l1d\n\n"


class Builds(unittest.TestCase):
    def test_a_processor_without_amx(self):
        self.assertEqual(peers.builds(None, PLAIN), {"peer": ({}, "")})

    def test_with_amx_clang_compiles_it_twice(self):
        builds = peers.builds(None, AMX)
        self.assertEqual(list(builds), ["peer-amx", "peer-no-amx"])
        for environment, _ in builds.values():
            self.assertEqual((environment["CC"], environment["CXX"]), ("clang-14", "clang++-14"))
        system = "CPU : AVX2 = 1 | AVX512 = 1 | AMX_INT8 = 1 | OPENMP = 1 |"
        for name, has in (("peer-amx", True), ("peer-no-amx", False)):
            environment, pattern = builds[name]
            self.assertEqual(environment.get("CXXFLAGS") == environment.get("CFLAGS") == "-D__AMX_INT8__", has)
            self.assertEqual(bool(re.match(pattern, system)), has)
            self.assertEqual(bool(re.match(pattern, system.replace("AMX_INT8 = 1 | ", ""))), not has)

    def test_the_peer_for_avx2_has_no_amx_in_any_case(self):
        for cpuinfo in (PLAIN, AMX):
            builds = peers.builds("avx2", cpuinfo)
            self.assertEqual(list(builds), ["peer-avx2"])
            environment, pattern = builds["peer-avx2"]
            self.assertIn("GGML_NATIVE=OFF", environment["CMAKE_ARGS"])
            self.assertTrue(re.match(pattern, "CPU : AVX2 = 1 |") and not re.match(pattern, "CPU : AVX2 = 1 | AVX512 = 1 |"))


if __name__ == "__main__":
    unittest.main()
