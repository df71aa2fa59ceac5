"""Lists the kernels of a step by time: runs nsys and ncu, if they are installed, and parses their CSV output."""
import csv
import glob
import io
import os
import re
import shutil
import subprocess
import tempfile

TOOLS = {"nsys": ("/usr/local/cuda/bin/nsys", "/opt/nvidia/nsight-systems*/*/bin/nsys", "/opt/nvidia/nsight-systems*/bin/nsys"),
         "ncu": ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")}
METRICS = {"gpu__time_duration.sum": "ns", "dram__bytes_read.sum": "read", "dram__bytes_write.sum": "written",
           "sm__throughput.avg.pct_of_peak_sustained_elapsed": "sm_percent"}
# Floating-point operations per count of each counter. Counters of Tensor Cores count multiplications and additions separately.
OPERATIONS = {"sm__ops_path_tensor_src_bf16_dst_fp32.sum": 1, "sm__ops_path_tensor_src_fp16_dst_fp32.sum": 1,
              "sm__ops_path_tensor_src_tf32_dst_fp32.sum": 1, "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 2,
              "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": 1, "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum": 1}
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cuStreamSynchronize", "cuCtxSynchronize",
         "cuEventSynchronize")
LAUNCHES = ("cudaGraphLaunch", "cuGraphLaunch")


def tool(name):
    found = shutil.which(name)
    return found or next((path for pattern in TOOLS[name] for path in sorted(glob.glob(pattern), reverse=True)), None)


def short_name(kernel):
    """Returns a kernel's name without its arguments and without long template arguments."""
    name = re.sub(r"^(?:void|static)\s+", "", kernel.strip()).replace("(anonymous namespace)::", "")
    depth, kept = 0, []
    for character in name:
        if character == "(" and depth == 0:
            break
        depth += character == "<"
        kept.append(character)
        depth -= character == ">"
    return "".join(kept).strip()[:120]


def csv_rows(text, must_have):
    """Returns the rows after the first line that has all of `must_have` as columns."""
    lines = text.splitlines()
    for i, line in enumerate(lines):
        header = next(csv.reader([line]), [])
        if all(column in header for column in must_have):
            for row in csv.DictReader(io.StringIO("\n".join(lines[i:]))):
                yield row
            return


def value(text):
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None


def parse_nsys_kernels(text, steps):
    """nsys stats --report cuda_gpu_kern_sum --format csv: returns the kernels of one step, sorted by time."""
    rows = []
    for row in csv_rows(text, ("Total Time (ns)", "Instances", "Name")):
        total, count = value(row["Total Time (ns)"]), value(row["Instances"])
        if total is not None and count is not None:
            rows.append({"kernel": short_name(row["Name"]), "us": total / 1e3 / steps, "calls": count / steps})
    total = sum(row["us"] for row in rows)
    for row in rows:
        row["share"] = row["us"] / total if total else 0.0
    return sorted(rows, key=lambda row: -row["us"])


def parse_nsys_api(text, steps):
    """nsys stats --report cuda_api_sum --format csv: returns the number of waits of the host and of graph launches per step."""
    found = {"waits": 0.0, "graph_launches": 0.0}
    seen = False
    for row in csv_rows(text, ("Num Calls", "Name")):
        count, name, seen = value(row["Num Calls"]) or 0, re.sub(r"_v\d+$|_ptsz$", "", row["Name"]), True
        if name in WAITS:
            found["waits"] += count / steps
        if name in LAUNCHES:
            found["graph_launches"] += count / steps
    return found if seen else {}


def parse_ncu(text, copy_tb_s=None):
    """ncu --csv --page raw --print-units base: returns the kernels sorted by time, with the bytes that they moved, the
    share of the measured copy rate, and their operations (None if no counter counted them)."""
    kernels = {}
    for row in csv_rows(text, ("Kernel Name", "gpu__time_duration.sum")):
        ns = value(row["gpu__time_duration.sum"])
        if ns is None:
            continue  # the line that names the units
        into = kernels.setdefault(short_name(row["Kernel Name"]), {"calls": 0, "us": 0.0, "bytes": 0.0, "flops": None, "weighed": 0.0})
        into["calls"] += 1
        into["us"] += ns / 1e3
        into["bytes"] += (value(row.get("dram__bytes_read.sum")) or 0) + (value(row.get("dram__bytes_write.sum")) or 0)
        counted = [count * counts for metric, counts in OPERATIONS.items() if (count := value(row.get(metric))) is not None]
        if counted:
            into["flops"] = (into["flops"] or 0.0) + sum(counted)
        into["weighed"] += ns * (value(row.get("sm__throughput.avg.pct_of_peak_sustained_elapsed")) or 0)
    rows = []
    for kernel, k in kernels.items():
        rate = k["bytes"] / k["us"] * 1e-6 if k["us"] else 0.0
        rows.append({"kernel": kernel, "calls": k["calls"], "us": k["us"], "bytes": k["bytes"], "tb_s": rate, "flops": k["flops"],
                     "tflop_s": k["flops"] / k["us"] * 1e-6 if k["flops"] is not None and k["us"] else None,
                     "share_of_copy": rate / copy_tb_s if copy_tb_s else None,
                     "sm_percent": k["weighed"] / (k["us"] * 1e3) if k["us"] else 0.0})
    return sorted(rows, key=lambda row: -row["us"])


def call(command, env, seconds):
    done = subprocess.run([str(part) for part in command], env=env, capture_output=True, text=True, errors="replace", timeout=seconds)
    if done.returncode != 0:
        raise RuntimeError(f"{os.path.basename(str(command[0]))} ended with {done.returncode}: {(done.stderr or done.stdout)[-300:]}")
    return done.stdout


def with_nsys(program, env, seconds, steps=20):
    """Returns {"kernels", "api"} of one step, or {"missing"} or {"error"}. Measures the difference between two runs of different
    lengths, so that building the model and the first steps do not count."""
    nsys = tool("nsys")
    if not nsys:
        return {"missing": "nsys is not installed"}
    try:
        with tempfile.TemporaryDirectory() as folder:
            reports = []
            for count in (1, 1 + steps):
                out = os.path.join(folder, f"run{count}")
                call([nsys, "profile", "--trace=cuda", "--cuda-graph-trace=node", "--sample=none", "--cpuctxsw=none", "--force-overwrite=true", "-o", out,
                      *program, "--steps", count], env, seconds)
                reports.append([call([nsys, "stats", "--force-export=true", "--format", "csv", "--report", report, out + ".nsys-rep"], env, seconds)
                                for report in ("cuda_gpu_kern_sum", "cuda_api_sum")])
        return {"kernels": between(*(parse_nsys_kernels(r[0], 1) for r in reports), steps),
                "api": {k: max(0.0, (v - parse_nsys_api(reports[0][1], 1).get(k, 0.0)) / steps) for k, v in parse_nsys_api(reports[1][1], 1).items()}}
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        return {"error": str(error)[:400]}


def between(short, long, steps):
    """Returns the difference between a run and a shorter one, divided by `steps`."""
    before = {row["kernel"]: row for row in merged(short)}
    rows = []
    for row in merged(long):
        less = before.get(row["kernel"], {"us": 0.0, "calls": 0.0})
        us, calls = (row["us"] - less["us"]) / steps, (row["calls"] - less["calls"]) / steps
        if calls > 0 and us > 0:
            rows.append({"kernel": row["kernel"], "us": us, "calls": calls})
    total = sum(row["us"] for row in rows)
    for row in rows:
        row["share"] = row["us"] / total
    return sorted(rows, key=lambda row: -row["us"])


def merged(rows):
    """Adds up rows of kernels with the same short name."""
    found = {}
    for row in rows:
        into = found.setdefault(row["kernel"], {"kernel": row["kernel"], "us": 0.0, "calls": 0.0})
        into["us"] += row["us"]
        into["calls"] += row["calls"]
    return list(found.values())


def with_ncu(program, env, seconds, copy_tb_s, skip, count):
    """Returns {"kernels"} of `count` launches after the first `skip`, or {"missing"} or {"error"} (counters often need root)."""
    ncu = tool("ncu")
    if not ncu:
        return {"missing": "ncu is not installed"}
    error = None
    for metrics in ([*METRICS, *OPERATIONS], METRICS):  # not every card has every counter
        try:
            text = call([ncu, "--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(metrics), "--launch-skip", skip,
                         "--launch-count", count, *program, "--steps", 1], env, seconds)
            kernels = parse_ncu(text, copy_tb_s)
            if kernels:
                return {"kernels": kernels}
            error = error or "ncu listed no kernel: " + text[-200:]
        except subprocess.TimeoutExpired as late:
            return {"error": str(late)[:400]}
        except (RuntimeError, OSError) as failed:
            error = error or str(failed)[:400]
    return {"error": error}
