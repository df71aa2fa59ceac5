
#include "amp/doctor/commands.h"
#include "amp/doctor/report/page.h"
#include "core/error.h"
#include "core/version.h"
#include "io/console.h"
#include "io/file_ops.h"
#include "io/utc_time.h"

namespace binade::doctor {

int write_report(const std::string& run, const std::string& output) {
  const report::RunHistory history = report::read_history(run);
  const std::string path = output.empty() ? history.folder + "/report.html" : output;
  const std::string html = report::page(history,
                                        fmt::format("Made {} by binade-doctor report, {}.", io::utc_now(), build_id()));
  const auto [folder_path, name] = io::split_path(path);
  io::FileOps& ops = io::FileOps::real();
  const io::FileHandle folder = io::open_folder(ops, folder_path);
  const int error = io::write_file_atomically(ops, folder.get(), name, io::bytes_of(html));
  check<StorageError>(error == 0, "{}: cannot be written: {}", path, io::error_text(error));
  io::print((output.empty() ? run + "/report.html" : output) + "\n");
  return 0;
}

}  // namespace binade::doctor
