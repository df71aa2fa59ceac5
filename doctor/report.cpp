#include "binade/core/error.h"
#include "binade/core/version.h"
#include "binade/doctor/commands.h"
#include "binade/doctor/report/page.h"
#include "binade/io/files/file_ops.h"
#include "binade/io/files/output_file.h"
#include "binade/io/records/json_lines.h"
#include "binade/io/terminal/console.h"

namespace binade::doctor {

int write_report(const std::string& run, const std::string& output) {
  const report::RunHistory history = report::read_history(run);
  const std::string html = report::page(history,
                                        fmt::format("Made {} by binade-doctor report, {}.", io::utc_now(), build_id()));
  if (!output.empty()) {
    io::write_output_file(output, io::bytes_of(html));
    io::print(output + "\n");
    return 0;
  }
  io::FileOps& ops = io::FileOps::real();
  const io::FileHandle folder = io::open_folder(ops, history.folder);
  const int error = io::write_file_atomically(ops, folder.get(), "report.html", io::bytes_of(html));
  check<StorageError>(error == 0, "{}/report.html: cannot be written: {}", run, io::error_text(error));
  io::print(run + "/report.html\n");
  return 0;
}

}  // namespace binade::doctor
