"""Tests `run-gpu bench`: a whole run on the emulated device; its parsing, races and arithmetic with made-up numbers."""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

SOURCE = pathlib.Path(os.environ.get("BINADE_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("BINADE_BUILD", SOURCE / "build")).resolve()
sys.path.insert(0, str(SOURCE / "bench"))

import resources  # noqa: E402  (the path comes first)
from gpu import bench, contenders, goals, machine, profile  # noqa: E402

NUMBER = (int, float)


class DryRun(unittest.TestCase):
    def test_every_part_on_the_emulated_device(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder, "bench.json")
            # Without PyTorch, which only some machines have.
            done = subprocess.run([sys.executable, SOURCE / "bench/run_gpu.py", "bench", "--build", BUILD, "--emulated", "--quick", "--out", out,
                                   "--torch", "/nowhere/python"], capture_output=True, text=True, timeout=600, cwd=folder)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            document = json.loads(out.read_text(encoding="utf-8"))
        self.assertEqual([e["part"] for e in document["errors"]], ["peers"])
        self.assertEqual(document["schema"], bench.SCHEMA)
        for line in document["ops"]:
            self.assertNotIn("error", line)
            if line["part"] != "device":
                for field in ("us", "us_min", "us_max", "bytes", "flops", "tb_s", "tflop_s"):
                    self.assertIsInstance(line[field], NUMBER, line)
        shapes = {line["what"] for line in document["ops"] if line["part"] == "product"}
        # Five layers in three directions; four with a bias, in two; one data gradient times the activation derivative.
        self.assertEqual(len(shapes), 15 + 8 + 1)
        ops = {line["what"] for line in document["ops"] if line["part"] == "op"}
        for what in ("tokens + positions", "embedding of text backward", "batch_norm + relu backward", "max_pool2d backward", "up-conv forward",
                     "concat forward", "conv2d 3x3 16 to 8 at 8 gradient of w"):
            self.assertIn(what, ops)
        self.assertEqual({(r["name"], r["workload"], r["batch"]) for r in document["steps"]},
                         {(f"binade {p}", w, b) for p in ("bf16", "fp16", "tf32") for w, b in (("gpt-dry", 8), ("unet-dry", 16))})
        for row in document["steps"]:
            self.assertNotIn("error", row)
            self.assertLess(row["warm_loss"], row["first_loss"])
            self.assertGreater(row["device_peak_mib"], 0)
            self.assertEqual("speedup" in row, row["name"] != "binade bf16")
        self.assertEqual(len(document["overhead"]), 2)
        self.assertGreater(document["checkpoint"]["stall_ms"], 0)
        self.assertEqual({name: list(found) for name, found in document["kernels"].items()}, {name: ["missing"] for name in bench.KERNELS})
        for row in document["table"]:
            self.assertEqual(set(row), {"goal", "must", "stretch", "at_least", "unit", "value", "spread", "verdict", "stretch_met", "note"})
            self.assertIn(row["verdict"], goals.VERDICTS)
            self.assertEqual(row["verdict"] == "not measured", row["value"] is None)
            self.assertIn(row["goal"], done.stdout)
        counts = [sum(r["verdict"] == v for r in document["table"]) for v in goals.VERDICTS]
        self.assertIn(f"{counts[0]} met, {counts[1]} missed, {counts[2]} not measured", done.stdout)
        self.assertIn("a dry run: no figure means anything", done.stdout)


SERVER = textwrap.dedent("""
    import json, sys, time
    name, ms, first, trouble = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
    if trouble == "hangs": time.sleep(60)
    if trouble == "dies": sys.exit("no such thing")
    print(json.dumps({"ready": True, "backend": name, "parameters": 1}), flush=True)
    made = 0
    for line in sys.stdin:
        if line.strip() == "quit": break
        if trouble == "memory": sys.exit("out of memory: 3 GB asked for")
        made += int(line.split()[1])
        if trouble == "late death" and made > 9: sys.exit("lost")
        loss = first if trouble == "stuck" else first - 0.01 * made
        print(json.dumps({"steps": 1, "ms": ms, "loss": loss, "first_loss": first, "device_peak_mib": 10 * ms}), flush=True)
""")


class Races(unittest.TestCase):
    def race(self, *entries, check=None):
        with tempfile.TemporaryDirectory() as folder:
            server = pathlib.Path(folder, "server.py")
            server.write_text(SERVER, encoding="utf-8")
            plans = [{"name": name, "side": side, "workload": "w", "batch": 1, "precision": "bf16", "mode": "eager",
                      "command": [sys.executable, server, name, ms, first, trouble]} for name, side, ms, first, trouble in entries]
            check = check or (lambda c, found: contenders.loss_fault(c, found, 3.0, 0.03, 0.02))
            return {row["name"]: row for row in contenders.race(plans, 5, 3, contenders.Deadline(120), check, limits={"ready": 3.0, "first": 3.0})}

    def test_ratios_and_failures(self):
        rows = self.race(("binade bf16", "binade", 2, 3.01, "-"), ("slow", "torch", 5, 3.02, "-"), ("hangs", "torch", 5, 3, "hangs"),
                         ("dies", "torch", 5, 3, "dies"), ("far", "torch", 5, 3.5, "-"), ("stuck", "torch", 5, 3, "stuck"),
                         ("late", "torch", 5, 3, "late death"))
        self.assertEqual(rows["binade bf16"]["median_ms"], 2)
        self.assertNotIn("speedup", rows["binade bf16"])
        self.assertEqual((rows["slow"]["speedup"], rows["slow"]["speedup_quartiles"], rows["slow"]["rounds"]), (2.5, [2.5, 2.5], 5))
        self.assertEqual(rows["slow"]["device_peak_mib"], 50)
        for name, words in (("hangs", "no answer after 3 s"), ("dies", "no such thing"), ("far", "wanted 3.0000 within 3%"),
                            ("stuck", "does not fall"), ("late", "lost")):
            self.assertIn(words, rows[name]["error"], name)
            self.assertNotIn("median_ms", rows[name])
        self.assertNotIn("command", rows["slow"])

    def test_a_contender_without_memory_races_again_alone(self):
        rows = self.race(("binade bf16", "binade", 2, 3, "-"), ("ours", "binade", 3, 3, "-"), ("big", "torch", 5, 3, "memory"))
        self.assertIn("out of memory", rows["big"]["error"])
        self.assertEqual(rows["ours"]["speedup"], 1.5)
        self.assertEqual(len(rows), 3)

    def test_peers_of_one_side_must_agree(self):
        rows = self.race(("binade bf16", "binade", 2, 3, "-"), ("other", "binade", 2, 3.07, "-"))
        self.assertIn("first losses differ on one side", rows["other"]["error"])


NSYS_KERNELS = '''Processing [run.sqlite] with [cuda_gpu_kern_sum.py]...

Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
75.0,3000000,20,150000.0,150000.0,1,2,0.0,"void binade::cuda::(anonymous namespace)::forward_rows<__nv_bfloat16, (int)8>(binade::RowNormForward, int, unsigned int *)"
25.0,"1,000,000",10,100000.0,100000.0,1,2,0.0,sm90_xmma_gemm_bf16
'''
NSYS_API = '''Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
50.0,1,20,1,1,1,1,0,cudaStreamSynchronize
40.0,1,10,1,1,1,1,0,cudaGraphLaunch_v10000
10.0,1,9,1,1,1,1,0,cudaLaunchKernel
'''
NCU = '''==PROF== Connected to process 12
"ID","Kernel Name","gpu__time_duration.sum","dram__bytes_read.sum","dram__bytes_write.sum","sm__throughput.avg.pct_of_peak_sustained_elapsed","sm__ops_path_tensor_src_bf16_dst_fp32.sum","smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
"","","ns","byte","byte","%","",""
"0","void add<float>(int)","1,000","2000000","1000000","10","0","500"
"1","void add<float>(int)","3000","2000000","1000000","30","0","1,500"
"2","gemm","2000","0","n/a","90","8000000","n/a"
"3","copy","1","0","0","1","n/a","n/a"
'''


class Parsing(unittest.TestCase):
    def test_nsys(self):
        rows = profile.parse_nsys_kernels(NSYS_KERNELS, steps=10)
        self.assertEqual([row["kernel"] for row in rows], ["binade::cuda::forward_rows<__nv_bfloat16, (int)8>", "sm90_xmma_gemm_bf16"])
        self.assertEqual((rows[0]["us"], rows[0]["calls"], rows[0]["share"]), (300.0, 2.0, 0.75))
        self.assertEqual(profile.parse_nsys_api(NSYS_API, 10), {"waits": 2.0, "graph_launches": 1.0})
        self.assertEqual((profile.parse_nsys_kernels("no data", 1), profile.parse_nsys_api("", 1)), ([], {}))

    def test_between_two_runs(self):
        short = [{"kernel": "a", "us": 5.0, "calls": 1.0}, {"kernel": "once", "us": 9.0, "calls": 1.0}]
        long = [{"kernel": "a", "us": 25.0, "calls": 5.0}, {"kernel": "once", "us": 9.0, "calls": 1.0}, {"kernel": "b", "us": 60.0, "calls": 4.0}]
        self.assertEqual(profile.between(short, long, 4), [{"kernel": "b", "us": 15.0, "calls": 1.0, "share": 0.75},
                                                           {"kernel": "a", "us": 5.0, "calls": 1.0, "share": 0.25}])

    def test_ncu(self):
        add, gemm, copy = profile.parse_ncu(NCU, copy_tb_s=3.0)
        self.assertEqual((add["flops"], gemm["flops"], copy["flops"]), (4000, 8e6, None))
        self.assertAlmostEqual(gemm["tflop_s"], 4.0)
        self.assertEqual((add["kernel"], add["calls"], add["us"], add["bytes"]), ("add<float>", 2, 4.0, 6e6))
        self.assertAlmostEqual(add["tb_s"], 1.5)
        self.assertAlmostEqual(add["share_of_copy"], 0.5)
        self.assertAlmostEqual(add["sm_percent"], 25)
        self.assertEqual((gemm["bytes"], gemm["sm_percent"]), (0, 90))

    def test_nvidia_smi(self):
        text = "NVIDIA H200, 580.1, 143771, 4, 1980, 1980, 3201, 119.5, [N/A], 31, 0x0000000000000024\n"
        found = machine.parse_smi(text)
        self.assertEqual((found["name"], found["clocks_sm"], found["power_limit"], found["slowed_by"]),
                         ("NVIDIA H200", 1980, None, ["power cap", "thermal"]))
        self.assertEqual(machine.parse_smi("No devices were found"), {})

    def test_attributes_of_a_kernel(self):
        info = b"\x04\x2f\x08\x00\x07\x00\x00\x00\x40\x00\x00\x00" b"\x03\x1b\xff\x00" b"\x04\x11\x08\x00\x07\x00\x00\x00\x10\x00\x00\x00"
        self.assertEqual([name for name, _ in resources.attributes(info)], [resources.REGISTERS, 0x1b, resources.FRAME_SIZE])
        self.assertEqual([resources.resident_threads(r) for r in (32, 33, 64, 128, 255)], [2048, 1632, 1024, 512, 256])

    @unittest.skipUnless((BUILD / "cuda/libbinade_cuda.so").exists(), "no CUDA module was built")
    def test_the_module_is_read(self):
        out = io.StringIO()
        argv, sys.argv = sys.argv, ["resources.py", str(BUILD / "cuda/libbinade_cuda.so"), "--all"]
        try:
            with contextlib.redirect_stdout(out):
                resources.main()
        finally:
            sys.argv = argv
        self.assertGreater(len(out.getvalue().splitlines()), 100)
        self.assertNotIn("a trap is compiled into", out.getvalue())

    def test_a_trap_is_detected(self):
        trap, exit_ = bytes.fromhex("5c79000004000000000030000020fe000"[:32]), bytes.fromhex("4d790000000000000000800300ea0f00")
        self.assertEqual([resources.traps(code) for code in (exit_, trap + exit_, b"")], [0, 1, 0])


class Arithmetic(unittest.TestCase):
    def test_steps_beside_a_save(self):
        lines = [{"step": 1, "ms": 900.0}, {"step": 2, "ms": 10.0}, {"step": 3, "ms": 30.0, "stall_ms": 20.0}, {"step": 4, "ms": 20.0, "saving": True},
                 {"step": 5, "ms": 30.0, "saving": True}, {"step": 6, "ms": 10.0}]
        self.assertEqual(bench.rate_during_save(lines, 1), {"rate_beside": 0.4, "steps_beside": 2, "steps_without": 2})
        self.assertEqual(bench.rate_during_save(lines[:3], 1), {})

    def test_verdicts(self):
        self.assertEqual(goals.goal("g", 1.15, 1.1, 1.2)["verdict"], "met")
        self.assertFalse(goals.goal("g", 1.15, 1.1, 1.2)["stretch_met"])
        self.assertEqual(goals.goal("g", 1.05, 1.1, 1.2)["verdict"], "missed")
        self.assertTrue(goals.goal("g", 0.5, 0.9, 0.75, at_least=False)["stretch_met"])
        for value in (None, float("nan"), float("inf")):
            row = goals.goal("g", value, 1.1, why="because")
            self.assertEqual((row["verdict"], row["value"], row["note"]), ("not measured", None, "because"))

    def test_the_floor_of_a_step(self):
        self.assertAlmostEqual(goals.gpt2_floor_ms(64, 790.0, 4.3), 87.8, delta=1.0)  # the design's own figure

    def document(self):
        def step(name, ms, **more):
            base = dict(name=name, side=name.split()[0], workload="gpt2-1024", batch=8, precision=name.split()[-1], mode="recorded", median_ms=ms,
                        speedup=ms / 10, speedup_quartiles=[ms / 10 - 0.1, ms / 10 + 0.1], device_peak_mib=1000.0, start_s=4.0)
            return {**base, **more}

        steps = [step("binade bf16", 10.0), step("binade tf32", 18.0, device_peak_mib=1600.0), step("binade fp16", 10.05),
                 step("torch eager bf16", 21.0, mode="eager"), step("torch default bf16", 13.0, mode="default", device_peak_mib=2000.0),
                 step("torch reduce-overhead bf16", 11.0, mode="reduce-overhead", device_peak_mib=1250.0),
                 {"name": "torch max-autotune bf16", "side": "torch", "workload": "gpt2-1024", "batch": 8, "precision": "bf16", "mode": "max-autotune",
                  "error": "no answer after 420 s"}]
        ours = [{"what": "device to device", "part": "copy", "dtype": "", "us": 1.0, "tb_s": 4.0},
                {"what": "adamw of 124M", "part": "op", "dtype": "f32", "us": 1.0, "tb_s": 3.7},
                {"what": "attention forward", "part": "op", "dtype": "bf16", "us": 100.0, "tb_s": 1.0}, {"what": "layer_norm forward", "error": "x"}]
        theirs = [{"what": "attention forward", "part": "op", "dtype": "bf16", "us": 98.0}]
        return {"steps": steps, "ops": ours, "peer_ops": theirs, "names": {"gpt": "gpt2-1024", "unet": "unet-gpu"}, "checkpoint": {"stall_ms": 0.2},
                "overhead": [{"workload": "gpt2-1024", "ratio": 1.002, "low": 1.0, "high": 1.004}],
                "kernels": {"nsys": {"kernels": [], "api": {"waits": 1.0, "graph_launches": 1.0}}}}

    def test_the_table(self):
        rows = {row["goal"]: row for row in goals.judge(self.document())}
        best = rows["gpt2-1024 batch 8 over the best compiled PyTorch"]
        self.assertEqual((best["value"], best["verdict"], best["note"]), (1.1, "missed", "best of three: reduce-overhead"))
        for name, value, verdict in (("gpt2-1024 batch 8 over eager PyTorch", 2.1, "met"), ("gpt2-1024 batch 8: bf16 over own tf32", 1.8, "met"),
                                     ("gpt2-1024 batch 8: fp16 with its scaler over bf16", 1.005, "met"),
                                     ("gpt2-1024 batch 8: memory over compiled PyTorch's", 0.8, "met"),
                                     ("gpt2-1024 batch 8: memory, bf16 over fp32", None, "not measured"),
                                     ("gpt2-1024 batch 64 over eager PyTorch", None, "not measured"),
                                     ("optimizer: share of a copy", 0.925, "met"), ("layer_norm forward", None, "not measured"),
                                     ("attention forward over cuDNN's through PyTorch", 0.98, "met"), ("waits of the host a step", 1.0, "missed"),
                                     ("graph launches a step", 1.0, "met"), ("checkpoint: stall a save", 0.2, "met")):
            self.assertEqual((rows[name]["value"], rows[name]["verdict"]), (value, verdict), name)
        self.assertTrue(rows["checkpoint: stall a save"]["stretch_met"])
        text = goals.text_of(list(rows.values()))
        self.assertEqual(len(text.splitlines()), len(rows) + 2)

    def test_an_empty_run_has_a_table(self):
        document = {**self.document(), "steps": [], "ops": [], "peer_ops": [], "overhead": [], "kernels": {}, "checkpoint": {}}
        self.assertEqual({row["verdict"] for row in goals.judge(document)}, {"not measured"})

    def test_failed_parts_are_printed(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            d = self.document()
            bench.print_ops([{"part": "op", "what": "layer_norm forward", "error": "no memory"}], [])
            bench.print_steps([{**row, "quartiles_ms": [1.0, 2.0]} for row in d["steps"]])
            bench.print_kernels({"nsys": {"kernels": [{"kernel": "k", "us": 1.0, "calls": 2.0, "share": 0.5}]}, "ncu": {"error": "denied"},
                                 "ncu unet": {"kernels": profile.parse_ncu(NCU, 3.0)}})
            bench.print_checkpoint({"rate_beside": 0.5, "steps_beside": 3, "steps_without": 4})
        self.assertIn("not measured: no answer after 420 s", out.getvalue())
        self.assertIn("kernels by ncu: not measured: denied", out.getvalue())
        self.assertIn("0.01 GFLOP    4.0 TFLOP/s", out.getvalue())
        self.assertIn("0.500 of the rate", out.getvalue())


if __name__ == "__main__":
    unittest.main()
