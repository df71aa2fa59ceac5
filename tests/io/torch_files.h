#pragma once

namespace binade::io {

/// Python code (standard library only) that writes files as torch.save() does: save(path, object), in which tensors are
/// made by tensor(type, values, size, stride, offset, key=…). A storage is a little-endian array of a type of `struct`,
/// or bytes; two tensors with one key share it.
inline constexpr const char* kTorchFiles = R"(
import collections, io, math, os, pickle, struct, sys, types, zipfile

torch = types.ModuleType('torch')
utils = types.ModuleType('torch._utils')
torch._utils = utils
sys.modules.update({'torch': torch, 'torch._utils': utils})
TYPES = {'Double': 'd', 'Float': 'f', 'Half': 'e', 'BFloat16': 'H', 'Long': 'q', 'Int': 'i', 'Byte': 'B', 'Bool': '?',
         'Char': 'b', 'QInt8': 'b'}
for name in TYPES:
    setattr(torch, name + 'Storage', type(name + 'Storage', (), {'__module__': 'torch'}))

def _rebuild_tensor_v2(*args):
    raise RuntimeError('never called')
def _rebuild_parameter(*args):
    raise RuntimeError('never called')
for f in (_rebuild_tensor_v2, _rebuild_parameter):
    f.__module__ = 'torch._utils'
    setattr(utils, f.__name__, f)

class Storage:
    def __init__(self, kind, key, count):
        self.kind, self.key, self.count = kind, key, count

class Tensor:
    def __init__(self, *args):
        self.args = args
    def __reduce__(self):
        return _rebuild_tensor_v2, self.args

class Parameter:
    def __init__(self, data):
        self.data = data
    def __reduce__(self):
        return _rebuild_parameter, (self.data, True, collections.OrderedDict())

storages = {}

def tensor(kind, values, size, stride=None, offset=0, key=None, count=None):
    key = key or str(len(storages))
    data = values if isinstance(values, bytes) else struct.pack(f'<{len(values)}{TYPES[kind]}', *values)
    storages[key] = data
    if stride is None:
        stride = tuple(math.prod(size[i + 1:]) for i in range(len(size)))
    elements = len(data) // struct.calcsize(TYPES[kind]) if count is None else count
    return Tensor(Storage(kind, key, elements), offset, tuple(size), tuple(stride), False, collections.OrderedDict())

class Pickler(pickle._Pickler):
    def persistent_id(self, obj):
        if isinstance(obj, Storage):
            return ('storage', getattr(torch, obj.kind + 'Storage'), obj.key, 'cpu', obj.count)

def archive(path, data, folder='archive', method=zipfile.ZIP_STORED, drop=(), extra={}):
    with zipfile.ZipFile(path, 'w', method) as z:
        z.writestr(folder + '/data.pkl', data)
        z.writestr(folder + '/byteorder', b'little')
        for key, value in storages.items():
            if key not in drop:
                z.writestr(f'{folder}/data/{key}', value)
        z.writestr(folder + '/version', b'3\n')
        for name, value in extra.items():
            z.writestr(f'{folder}/{name}', value)
    storages.clear()

def save(path, obj, protocol=2, **options):
    out = io.BytesIO()
    Pickler(out, protocol).dump(obj)
    archive(path, out.getvalue(), **options)
)";

}  // namespace binade::io
