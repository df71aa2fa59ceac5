#include "binade/io/exchange/pytorch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "binade/core/error.h"
#include "tests/io/scratch_folder.h"
#include "tests/io/torch_files.h"

namespace binade::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Runs statements after those of torch_files.h, in the folder.
void python(const ScratchFolder& folder, const std::string& statements) {
  const char* interpreter = std::getenv("BINADE_PYTHON");
  const std::string script = folder.write("script.py", std::string(kTorchFiles) + "os.chdir('" + folder.path() +
                                                           "')\n" + statements);
  const std::string command = std::string(interpreter != nullptr ? interpreter : "python3") + " " + script;
  ASSERT_EQ(std::system(command.c_str()), 0) << statements;
}

TEST(PytorchFiles, EveryDtypeStrideAndSharedStorageIsRead) {
  const ScratchFolder folder;
  python(folder, R"(
def state():
    s = collections.OrderedDict()
    s['f64'] = tensor('Double', [1.5, -2], (2,))
    s['f32'] = tensor('Float', range(6), (2, 3))
    s['f16'] = tensor('Half', [0.5, 65504], (2,))
    s['bf16'] = tensor('BFloat16', [0x3fc0, 0xc000], (2,))
    s['i64'] = tensor('Long', [-1, 2**40], (2,))
    s['i32'] = tensor('Int', [-7], (1,))
    s['u8'] = tensor('Byte', [255, 3], (2,))
    s['bool'] = tensor('Bool', [True, False], (2,))
    s['scalar'] = tensor('Long', [5], ())
    s['empty'] = tensor('Float', [], (0, 3))
    s['transposed'] = tensor('Float', range(6), (3, 2), (1, 3), key='shared')
    s['part'] = tensor('Float', range(6), (2,), (2,), offset=1, key='shared')
    s['parameter'] = Parameter(tensor('Float', [9], (1,)))
    s['tied'] = s['f32']
    s['number'] = 3
    s._metadata = collections.OrderedDict({'': {'version': 1}})
    return s
save('stored.pt', state())
save('deflated.pt', state(), folder='another name', method=zipfile.ZIP_DEFLATED)
for protocol in (3, 4, 5):
    save(f'protocol{protocol}.pt', state(), protocol=protocol)
)");
  for (const char* name : {"stored.pt", "deflated.pt", "protocol3.pt", "protocol4.pt", "protocol5.pt"}) {
    SCOPED_TRACE(name);
    const TensorMap t = read_pytorch(folder.path(name));
    ASSERT_EQ(t.size(), 14u);
    EXPECT_THAT(t.at("f64").to_vector<double>(), ElementsAre(1.5, -2));
    EXPECT_EQ(t.at("f32").shape(), (Shape{2, 3}));
    EXPECT_THAT(t.at("f32").to_vector<float>(), ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_EQ(t.at("f16").dtype(), DType::f16);
    EXPECT_THAT(t.at("f16").to_vector<float>(), ElementsAre(0.5f, 65504.0f));
    EXPECT_EQ(t.at("bf16").dtype(), DType::bf16);
    EXPECT_THAT(t.at("bf16").to_vector<float>(), ElementsAre(1.5f, -2.0f));
    EXPECT_THAT(t.at("i64").to_vector<std::int64_t>(), ElementsAre(-1, std::int64_t{1} << 40));
    EXPECT_THAT(t.at("i32").to_vector<std::int32_t>(), ElementsAre(-7));
    EXPECT_THAT(t.at("u8").to_vector<std::int32_t>(), ElementsAre(255, 3));
    EXPECT_EQ(t.at("bool").dtype(), DType::boolean);
    EXPECT_EQ(t.at("scalar").shape(), Shape{});
    EXPECT_EQ(t.at("empty").shape(), (Shape{0, 3}));
    EXPECT_THAT(t.at("transposed").to_vector<float>(), ElementsAre(0, 3, 1, 4, 2, 5));
    EXPECT_THAT(t.at("part").to_vector<float>(), ElementsAre(1, 3));
    EXPECT_THAT(t.at("parameter").to_vector<float>(), ElementsAre(9));
    EXPECT_TRUE(t.at("tied").shares_storage_with(t.at("f32")));
    EXPECT_EQ(read_weights_file(folder.path(name)).size(), 14u);
  }
}

TEST(PytorchFiles, AnEntryIsChosenByItsName) {
  const ScratchFolder folder;
  python(folder, R"(
save('c.pt', {'epoch': 3, 'lr': 0.1, 'model': {'w': tensor('Float', [1], (1,))}, 'optimizer': {'state': {0: {'step': tensor('Float', [2], ()),
     'exp_avg': tensor('Float', [3], (1,))}}, 'param_groups': [{'lr': 1e-3, 'betas': (0.9, 0.999), 'params': [0], 'none': None}]},
     'a.b': {'v': tensor('Float', [4], (1,))}, 'big': 2**40, 'flag': True})
)");
  const std::string path = folder.path("c.pt");
  EXPECT_EQ(read_pytorch(path, "model").at("w").item(), 1);
  EXPECT_EQ(read_pytorch(path, "a.b").at("v").item(), 4);
  EXPECT_THAT(error_of<DataError>([&] { read_pytorch(path, "optimizer"); }),
              HasSubstr("wanted a dictionary of tensors"));
  const std::string whole = error_of<DataError>([&] { read_pytorch(path); });
  EXPECT_THAT(whole, HasSubstr("\"model\" (1 tensors)"));
  EXPECT_THAT(whole, HasSubstr("\"a.b\" (1 tensors)"));
  EXPECT_THAT(error_of<DataError>([&] { read_pytorch(path, "net"); }), HasSubstr("no entry \"net\""));
  EXPECT_THAT(error_of<DataError>([&] { read_pytorch(path, "epoch"); }), HasSubstr("got a whole number"));
}

TEST(PytorchFiles, NothingIsExecutedAndTheGlobalIsNamed) {
  const ScratchFolder folder;
  python(folder, R"(
class Evil:
    def __reduce__(self):
        return os.system, ('touch executed',)
save('evil.pt', {'w': Evil()})
save('namespace.pt', {'args': types.SimpleNamespace(lr=1), 'w': tensor('Float', [1], (1,))})
archive('getattr.pt', b'\x80\x02cbuiltins\ngetattr\n.')
archive('inst.pt', b'\x80\x02(ios\nsystem\n.')
archive('obj.pt', b'\x80\x02(cos\nsystem\no.')
archive('newobj.pt', b'\x80\x02ctorch\nFloatStorage\n)\x81.')
archive('call.pt', b'\x80\x02ctorch\nFloatStorage\n)R.')
archive('stack.pt', b'\x80\x04\x8c\x05posix\x8c\x06system\x93.')
archive('ext.pt', b'\x80\x02\x82\x01.')
archive('build.pt', b'\x80\x02K\x01}b.')
)");
  const auto reason = [&](const char* name) { return error_of<DataError>([&] { read_pytorch(folder.path(name)); }); };
  EXPECT_THAT(reason("evil.pt"), HasSubstr("posix.system"));
  EXPECT_THAT(reason("namespace.pt"), HasSubstr("types.SimpleNamespace"));
  EXPECT_THAT(reason("namespace.pt"), HasSubstr("torch.save(model.state_dict(), path)"));
  EXPECT_THAT(reason("getattr.pt"), HasSubstr("builtins.getattr"));
  for (const char* name : {"inst.pt", "newobj.pt", "ext.pt"})
    EXPECT_THAT(reason(name), HasSubstr("instruction")) << name;
  EXPECT_THAT(reason("obj.pt"), HasSubstr("os.system"));
  EXPECT_THAT(reason("call.pt"), HasSubstr("calls torch.FloatStorage"));
  EXPECT_THAT(reason("stack.pt"), HasSubstr("posix.system"));
  EXPECT_THAT(reason("build.pt"), HasSubstr("dictionary of attributes"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("executed")));
}

TEST(PytorchFiles, HostileTensorsAreRefusedWithWords) {
  const ScratchFolder folder;
  python(folder, R"(
one = lambda name, t, **options: save(name, {'w': t}, **options)
one('outside.pt', tensor('Float', range(4), (2, 2), (3, 1)))
one('offset.pt', tensor('Float', range(4), (2,), (1,), offset=3))
one('far.pt', tensor('Float', range(4), (2,), (2**62,)))
one('expanded.pt', tensor('Float', range(4), (2**40,), (0,)))
one('extents.pt', tensor('Float', range(4), (2**40, 2**40)))
one('negative.pt', tensor('Float', range(4), (-1,), (1,)))
one('ranks.pt', tensor('Float', range(4), (4,), (1, 1)))
one('deep.pt', tensor('Float', range(4), (1,) * 9))
one('count.pt', tensor('Float', range(4), (2,), count=2**50))
one('odd.pt', tensor('Float', b'123', (1,), count=1))
one('missing.pt', tensor('Float', [1], (1,), key='k'), drop=('k',))
one('char.pt', tensor('Char', [1], (1,)))
one('quantized.pt', tensor('QInt8', [1], (1,)))
one('bool.pt', tensor('Bool', b'\x02', (1,)))
one('script.pt', tensor('Float', [1], (1,)), extra={'constants.pkl': b''})
with zipfile.ZipFile('big.pt', 'w') as z:
    z.writestr('a/data.pkl', b'\x80\x02}.')
    z.writestr('a/byteorder', b'big')
n = 4000  # 4000 views of 1 MiB in a storage of 1 MiB and 4 KiB
base = bytes(2**20 + 4 * n)
save('overlap.pt', {str(i): tensor('Float', base, (2**18,), offset=i, key='s') for i in range(n)})
archive('recursive.pt', b'\x80\x02}q\x00X\x01\x00\x00\x00ah\x00s.')
archive('memo.pt', b'\x80\x02h\x05.')
archive('mark.pt', b'\x80\x02t.')
archive('long.pt', b'\x80\x02\x8a\xff' + b'1' * 255 + b'.')
archive('length.pt', b'\x80\x04\x8d' + b'\xff' * 8 + b'.')
archive('protocol.pt', b'\x80\x63.')
archive('none.pt', b'\x80\x02N.')
archive('end.pt', b'\x80\x02}')
archive('two.pt', b'\x80\x02}}.')
long = b'A' * 1000  # names that 5 and 3 bytes of the pickle would copy
text = lambda t: b'X' + struct.pack('<I', len(t)) + t
archive('class.pt', b'\x80\x04' + text(b'torch') + text(long + b'Storage') + b'\x93.')
archive('key.pt', b'\x80\x02(' + text(b'storage') + b'ctorch\nFloatStorage\n' + text(long) + text(b'cpu') + b'K\x01tQ.')
archive('ones.pt', b'\x80\x02' + b'(' * 100000 + b'.')
archive('bomb.pt', b'\x80\x02' + b']' * 40_000_000 + b'.', method=zipfile.ZIP_DEFLATED)
open('old.pt', 'wb').write(b'\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.')
with zipfile.ZipFile('other.pt', 'w') as z:
    z.writestr('a.txt', b'x')
)");
  const auto reason = [&](const char* name) { return error_of<DataError>([&] { read_pytorch(folder.path(name)); }); };
  const struct {
    const char* file;
    const char* wanted;
  } cases[] = {{"outside.pt", "strides lead out of its storage"},
               {"offset.pt", "strides lead out of its storage"},
               {"far.pt", "strides lead out of its storage"},
               {"expanded.pt", "elements in a storage of 4"},
               {"extents.pt", "multiply to more than any file"},
               {"negative.pt", "no natural number"},
               {"ranks.pt", "differ in length"},
               {"deep.pt", "more than 8 numbers"},
               {"count.pt", "its description says"},
               {"odd.pt", "its storage has 3 bytes"},
               {"missing.pt", "its storage is not in the file"},
               {"char.pt", "CharStorage; wanted one of f64"},
               {"quantized.pt", "QInt8Storage"},
               {"bool.pt", "neither 0 nor 1"},
               {"script.pt", "TorchScript"},
               {"big.pt", "little-endian"},
               {"overlap.pt", "its tensors overlap"},
               {"recursive.pt", "wanted a dictionary of tensors"},
               {"memo.pt", "did not store"},
               {"mark.pt", "no mark"},
               {"long.pt", "255 bytes"},
               {"length.pt", "truncated"},
               {"protocol.pt", "protocol 99"},
               {"none.pt", "got None"},
               {"end.pt", "truncated"},
               {"two.pt", "other than one value"},
               {"class.pt", "uses torch.AAAA"},
               {"key.pt", "a storage whose name has more than 64 bytes"},
               {"ones.pt", "other than one value"},
               {"bomb.pt", "wanted at most"},
               {"old.pt", "before 1.6"},
               {"other.pt", "without data.pkl"}};
  for (const auto& c : cases) EXPECT_THAT(reason(c.file), HasSubstr(c.wanted)) << c.file;
  EXPECT_THAT(reason("outside.pt"), HasSubstr("outside.pt: tensor \"w\""));
  EXPECT_THAT(error_of<DataError>([&] { read_weights_file(folder.write("x", "?")); }), HasSubstr("safetensors"));
}

TEST(PytorchFiles, TruncatedFilesAreRefusedAndChangedBytesDoNotCrash) {
  const ScratchFolder folder;
  python(folder, R"(
save('a.pt', {'w': tensor('Float', range(6), (3, 2), (1, 3)), 'i': tensor('Long', [1], ())})
)");
  const std::string file = folder.read("a.pt");
  const auto bytes_of = [](const std::string& text) { return std::as_bytes(std::span(text)); };
  EXPECT_EQ(decode_pytorch(bytes_of(file), "a").size(), 2u);
  for (std::size_t n = 0; n < file.size(); n += 3)
    EXPECT_THROW(decode_pytorch(bytes_of(file.substr(0, n)), "cut"), DataError) << n;
  std::mt19937 random(3);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string changed = file;
    changed[random() % changed.size()] = static_cast<char>(random());
    try {
      decode_pytorch(bytes_of(changed), "changed");
    } catch (const DataError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace binade::io
