"""Golden values of Fourier transforms, windows, resizing, sampling at positions of a grid, and pooling with indices, forward
and backward (golden_ops.py has the form). A complex tensor is a real one whose last axis has real and imaginary parts."""
import numpy as np
import torch
import torch.nn.functional as F

from golden_dimensions import first, last, text
from golden_ops import draw

COMPLEX, REAL = torch.view_as_complex, torch.view_as_real


def transforms(case):
    for op, f in {"fft": torch.fft.fft, "ifft": torch.fft.ifft}.items():
        for kind, (shape, n, axis, norm) in {"plain": ((2, 6, 2), 0, -1, "backward"), "axis": ((2, 5, 3, 2), 0, 1, "ortho"), "cut": ((7, 2), 4, 0, "forward"),
                                             "padded": ((2, 3, 2), 8, -1, "backward"), "prime": ((67, 2), 0, -1, "ortho")}.items():
            case(f"{op}.{kind}", op, {"x": draw(f"{op}.{kind}", shape, digits=3)},
                 lambda x, f=f: REAL(f(COMPLEX(x), n or None, axis, norm)), {"n": n, "axis": axis, "norm": norm})
    for op, f in {"rfft": torch.fft.rfft, "ihfft": torch.fft.ihfft}.items():
        for kind, (shape, n, axis, norm) in {"even": ((2, 8), 0, -1, "backward"), "odd": ((2, 7), 0, -1, "ortho"), "axis": ((6, 2), 5, 0, "forward"),
                                             "padded": ((3,), 10, -1, "backward")}.items():
            case(f"{op}.{kind}", op, {"x": draw(f"{op}.{kind}", shape)}, lambda x, f=f: REAL(f(x, n or None, axis, norm).resolve_conj()),
                 {"n": n, "axis": axis, "norm": norm})
    for op, f in {"irfft": torch.fft.irfft, "hfft": torch.fft.hfft}.items():
        for kind, (shape, n, axis, norm) in {"even": ((2, 5, 2), 0, -1, "backward"), "odd": ((2, 4, 2), 7, -1, "ortho"), "axis": ((6, 2, 2), 8, 0, "forward"),
                                             "padded": ((3, 2), 9, -1, "backward")}.items():
            case(f"{op}.{kind}", op, {"x": draw(f"{op}.{kind}", shape)}, lambda x, f=f: f(COMPLEX(x), n or None, axis, norm),
                 {"n": n, "axis": axis, "norm": norm})
    image, spectrum = draw("fft2.x", (2, 4, 3, 2), digits=3), draw("rfft2.x", (2, 4, 5), digits=3)
    for kind, size in {"plain": (0, 0), "sized": (3, 6)}.items():
        s = None if size == (0, 0) else size
        case(f"fft2.{kind}", "fft2", {"x": image}, lambda x, s=s: REAL(torch.fft.fft2(COMPLEX(x), s)), {"size": text(size)})
        case(f"ifft2.{kind}", "ifft2", {"x": image}, lambda x, s=s: REAL(torch.fft.ifft2(COMPLEX(x), s)), {"size": text(size)})
        case(f"rfft2.{kind}", "rfft2", {"x": spectrum}, lambda x, s=s: REAL(torch.fft.rfft2(x, s)), {"size": text(size)})
        case(f"irfft2.{kind}", "irfft2", {"x": image}, lambda x, s=s: torch.fft.irfft2(COMPLEX(x), s), {"size": text(size)})
    x = draw("fftn.x", (2, 3, 4, 2), digits=3)
    case("fftn.all", "fftn", {"x": x}, lambda x: REAL(torch.fft.fftn(COMPLEX(x))), {"sizes": "0", "axes": "0,1,2"})
    case("fftn.two", "fftn", {"x": x}, lambda x: REAL(torch.fft.fftn(COMPLEX(x), (4, 3), (2, 0))), {"sizes": "4,3", "axes": "2,0"})
    case("ifftn.two", "ifftn", {"x": x}, lambda x: REAL(torch.fft.ifftn(COMPLEX(x), None, (0, 2))), {"sizes": "0", "axes": "0,2"})
    case("rfftn.two", "rfftn", {"x": draw("rfftn.x", (3, 4, 2))}, lambda x: REAL(torch.fft.rfftn(x, (4, 3), (0, 1))), {"sizes": "4,3", "axes": "0,1"})
    case("irfftn.two", "irfftn", {"x": x}, lambda x: torch.fft.irfftn(COMPLEX(x), None, (0, 2)), {"sizes": "0", "axes": "0,2"})


def complex_numbers(case):
    a, b = draw("complex.a", (2, 3, 2)), draw("complex.b", (3, 2))
    case("complex_mul", "complex_mul", {"a": a, "b": b}, lambda a, b: REAL(COMPLEX(a) * COMPLEX(b)))
    case("conj", "conj", {"x": a}, lambda x: REAL(COMPLEX(x).conj().resolve_conj()))
    case("complex_abs", "complex_abs", {"x": a}, lambda x: COMPLEX(x).abs())
    case("complex_angle", "complex_angle", {"x": a}, lambda x: COMPLEX(x).angle())
    case("polar", "polar", {"a": draw("polar.a", (4,), 0.5, 2), "b": draw("polar.b", (4,))}, lambda a, b: REAL(torch.polar(a, b)))
    x = draw("fftshift", (4, 5))
    for op, f in {"fftshift": torch.fft.fftshift, "ifftshift": torch.fft.ifftshift}.items():
        case(f"{op}.all", op, {"x": x}, lambda x, f=f: f(x), {"axes": "0,1"})
        case(f"{op}.one", op, {"x": x}, lambda x, f=f: f(x, 1), {"axes": "1"})


def spectra(case):
    x = draw("stft.x", (2, 23), digits=3)
    # n_fft, hop, win_length, center, pad mode, normalized, onesided
    configs = {"plain": (8, 2, 8, True, "reflect", False, True), "short": (8, 3, 5, True, "constant", True, True), "odd": (7, 2, 7, False, "reflect", False, True),
               "both": (6, 3, 6, True, "replicate", False, False), "both_odd": (7, 2, 7, True, "reflect", True, False)}
    for kind, (n, hop, length, center, mode, normalized, onesided) in configs.items():
        params = {"n_fft": n, "hop": hop, "win": length, "center": center, "mode": mode, "normalized": normalized, "onesided": onesided}
        window = np.asarray(np.round(torch.hann_window(length, dtype=torch.float64).numpy() + 0.1, 4), dtype=np.float32)
        case(f"stft.{kind}", "stft", {"x": x, "window": window},
             lambda x, window: REAL(torch.stft(x, n, hop, length, window, center, mode, normalized, onesided, return_complex=True)), params)
        spectrum = draw(f"istft.{kind}", (2, n // 2 + 1 if onesided else n, 5, 2), digits=3)
        if not center:
            continue  # PyTorch's check of a window includes the first sample, which its own windows do not cover
        for size in (0, n + hop * 4 - n // 2 if length == n else 10):  # up to the last sample, if windows cover it
            case(f"istft.{kind}.{size}", "istft", {"x": spectrum, "window": window},
                 lambda x, window: torch.istft(COMPLEX(x), n, hop, length, window, center, normalized, onesided, size or None), {**params, "length": size})
    case("stft.one", "stft", {"x": draw("stft.one", (16,))}, lambda x: REAL(torch.stft(x, 4, window=torch.ones(4).double(), return_complex=True)),
         {"n_fft": 4, "hop": 0, "win": 0, "center": True, "mode": "reflect", "normalized": False, "onesided": True})


def windows(case):
    wide = {"dtype": torch.float64}
    for n in (1, 3, 7, 8):
        for periodic in (True, False):
            for op, f in {"hann": torch.hann_window, "hamming": torch.hamming_window, "blackman": torch.blackman_window, "bartlett": torch.bartlett_window,
                          "kaiser": torch.kaiser_window}.items():
                case(f"{op}_window.{n}.{periodic}", f"{op}_window", {}, lambda f=f: f(n, periodic=periodic, **wide), {"n": n, "periodic": periodic})
    for n in (1, 6, 7):
        case(f"fftfreq.{n}", "fftfreq", {}, lambda: torch.fft.fftfreq(n, 0.25, **wide), {"n": n})
        case(f"rfftfreq.{n}", "rfftfreq", {}, lambda: torch.fft.rfftfreq(n, 0.25, **wide), {"n": n})


def resizing(case):
    sequence, image, volume = draw("resize.1", (2, 5, 2)), draw("resize.2", (1, 4, 5, 2), digits=3), draw("resize.3", (1, 2, 3, 3, 1), digits=3)
    def add(name, x, mode, options, corners=None, antialias=False):
        size = options if isinstance(options[0], int) else None
        factor = None if size else options
        params = {"mode": mode, "size": text(size) if size else "", "factor": text(factor) if factor else "", "corners": bool(corners), "antialias": antialias}
        case(f"interpolate.{name}", "interpolate", {"x": x}, lambda x: last(F.interpolate(first(x), size, factor, mode, corners, antialias=antialias)),
             {k: v for k, v in params.items() if v != ""})
    for mode in ("nearest", "nearest-exact", "linear", "area"):
        add(f"1d.{mode}", sequence, mode, (8,), False if mode == "linear" else None)
        add(f"1d.{mode}.down", sequence, mode, (3,), False if mode == "linear" else None)
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area"):
        corners = False if mode in ("bilinear", "bicubic") else None
        add(f"2d.{mode}", image, mode, (5, 7), corners)
        add(f"2d.{mode}.down", image, mode, (3, 4), corners)
        add(f"2d.{mode}.factor", image, mode, (1.5, 0.6), corners)
    for mode in ("bilinear", "bicubic"):
        add(f"2d.{mode}.corners", image, mode, (5, 3), True)
        add(f"2d.{mode}.fraction", image, mode, (1.3, 0.7), False)
        add(f"2d.{mode}.antialias", image, mode, (2, 6), False, True)
        add(f"2d.{mode}.antialias_factor", image, mode, (0.55, 0.7), False, True)
        add(f"2d.{mode}.antialias_corners", image, mode, (3, 2), True, True)
    for mode in ("nearest", "nearest-exact", "trilinear", "area"):
        add(f"3d.{mode}", volume, mode, (3, 2, 4), False if mode == "trilinear" else None)
    add("3d.trilinear.corners", volume, "trilinear", (3, 2, 4), True)
    add("3d.trilinear.factor", volume, "trilinear", (2.0, 1.5, 0.7), False)


def sampling(case):
    image, volume = draw("grid.x", (2, 3, 4, 2), digits=2), draw("grid.v", (1, 2, 3, 3, 1), digits=2)
    grid, deep = draw("grid.grid", (2, 2, 3, 2), -1.6, 1.6), draw("grid.deep", (1, 2, 2, 3, 3), -1.6, 1.6)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (False, True):
                params = {"mode": mode, "padding": padding, "corners": corners}
                case(f"grid_sample.{mode}.{padding}.{corners}", "grid_sample", {"x": image, "grid": grid},
                     lambda x, grid: last(F.grid_sample(first(x), grid, mode, padding, corners)), params)
                # Every position is exactly that of a pixel, in f32 too, so that the slopes at the edges are compared.
                extents = (3, 5) if corners else (2, 4)
                identity = np.round(F.affine_grid(torch.eye(2, 3)[None], (1, 1, *extents), corners).numpy() * 4) / 4
                case(f"grid_sample.identity.{mode}.{padding}.{corners}", "grid_sample", {"x": draw("grid.identity", (1, *extents, 2)), "grid": identity},
                     lambda x, grid: last(F.grid_sample(first(x), grid, mode, padding, corners)), params)
                if mode != "bicubic" and padding != "border":
                    case(f"grid_sample.3d.{mode}.{padding}.{corners}", "grid_sample", {"x": volume, "grid": deep},
                         lambda x, grid: last(F.grid_sample(first(x), grid, mode, padding, corners)), params)
    for corners in (False, True):
        case(f"affine_grid.{corners}", "affine_grid", {"theta": draw("affine", (2, 2, 3))},
             lambda theta: F.affine_grid(theta, (2, 1, 3, 4), corners), {"size": "3,4", "corners": corners})
        case(f"affine_grid.3d.{corners}", "affine_grid", {"theta": draw("affine3", (1, 3, 4))},
             lambda theta: F.affine_grid(theta, (1, 1, 2, 3, 1), corners), {"size": "2,3,1", "corners": corners})


def pooling(case):
    sequence, image, volume = draw("pool.s", (2, 7, 3)), draw("pool.i", (2, 5, 6, 2)), draw("pool.v", (1, 4, 4, 6, 2))
    configs = {"1d": (sequence, (2,), (2,), (0,)), "1d.overlap": (sequence, (3,), (2,), (1,)), "2d": (image, (2, 2), (2, 2), (0, 0)),
               "2d.overlap": (image, (3, 2), (1, 2), (1, 0)), "3d": (volume, (2, 2, 2), (2, 2, 2), (0, 0, 0)),
               "3d.overlap": (volume, (3, 2, 3), (1, 2, 2), (1, 0, 1))}
    for name, (x, kernel, stride, padding) in configs.items():
        kind = name[:2]
        params = {"kernel": text(kernel), "stride": text(stride), "padding": text(padding)}
        pool, unpool = getattr(F, f"max_pool{kind}"), getattr(F, f"max_unpool{kind}")
        lp = getattr(F, f"lp_pool{kind}")
        as_tuple = lambda v: v if len(v) > 1 else v[0]
        case(f"max_pool{name}_with_indices", f"max_pool{kind}_with_indices", {"x": np.asarray(np.round(x * 2), dtype=np.float32)},
             lambda x, f=pool: dict(zip(("y", "indices"), map(last, f(first(x), as_tuple(kernel), as_tuple(stride), as_tuple(padding), return_indices=True)))), params)
        values, indices = pool(first(torch.from_numpy(x)), as_tuple(kernel), as_tuple(stride), as_tuple(padding), return_indices=True)
        if "overlap" not in name:  # if several values have one position, PyTorch keeps an arbitrary one
            y = np.asarray(draw(f"unpool.{name}", tuple(last(values).shape)))
            at = np.ascontiguousarray(last(indices).numpy())
            case(f"max_unpool{name}", f"max_unpool{kind}", {"x": y, "indices": at},
                 lambda x, indices, f=unpool: last(f(first(x), first(indices), as_tuple(kernel), as_tuple(stride), as_tuple(padding))), {**params, "size": text((0,) * len(kernel))})
            size = tuple(n + 1 for n in unpool(values, indices, as_tuple(kernel), as_tuple(stride), as_tuple(padding)).shape[2:])
            case(f"max_unpool{name}.sized", f"max_unpool{kind}", {"x": y, "indices": at},
                 lambda x, indices, f=unpool: last(f(first(x), first(indices), as_tuple(kernel), as_tuple(stride), as_tuple(padding), size)), {**params, "size": text(size)})
            for p in (2.0, 3.0, 1.0):
                case(f"lp_pool{name}.{p}", f"lp_pool{kind}", {"x": np.abs(x) + np.float32(0.125)},
                     lambda x, f=lp, p=p: last(f(first(x), p, as_tuple(kernel), as_tuple(stride))), {**params, "p": p})
            case(f"lp_pool{name}.signed", f"lp_pool{kind}", {"x": x},
                 lambda x, f=lp: last(f(first(x), 2.0, as_tuple(kernel), as_tuple(stride))), {**params, "p": 2.0})
    case("channel_shuffle", "channel_shuffle", {"x": draw("shuffle", (2, 2, 1, 6))}, lambda x: last(F.channel_shuffle(first(x), 3)), {"groups": 3})
    case("rrelu", "rrelu", {"x": draw("rrelu", (3, 4))}, lambda x: F.rrelu(x, 0.1, 0.3), {"lower": 0.1, "upper": 0.3})


def signals(case):
    for write in (transforms, complex_numbers, spectra, windows, resizing, sampling, pooling):
        write(case)
