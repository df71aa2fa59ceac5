#include "tests/fuzz/campaign.h"

#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "binade/core/error.h"
#include "tests/fuzz/watch.h"

namespace binade::fuzz {
namespace {

constexpr unsigned kHangSeconds = 300;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Tally tally_of(const Campaign& campaign, const Subject& subject) {
  return {.target = subject.name,
          .replay = fmt::format("{} {} {} --seed {} --input ", campaign.program, campaign.only_flag, subject.name,
                                campaign.seed)};
}

/// Runs job `job` of `jobs`: the inputs job, job + jobs, job + 2 jobs, ... of every subject.
std::vector<Tally> run_job(const Campaign& campaign, const std::vector<Subject>& subjects, std::uint64_t job) {
  std::vector<Tally> tallies;
  double inputs_left = 0;
  for (const Subject& s : subjects) inputs_left += static_cast<double>(s.inputs);
  const double end = now() + campaign.seconds;
  for (const Subject& subject : subjects) {
    Tally& t = tallies.emplace_back(tally_of(campaign, subject));
    const double until = now() + (end - now()) * static_cast<double>(subject.inputs) / inputs_left;
    inputs_left -= static_cast<double>(subject.inputs);
    const double began = processor_seconds();
    for (std::uint64_t index = job; index < subject.inputs; index += campaign.jobs) {
      if (index / campaign.jobs % 64 == 0) {
        alive();
        if (campaign.seconds > 0 && now() > until) break;
      }
      subject.judge(index, t);
    }
    t.seconds = processor_seconds() - began;
  }
  return tallies;
}

/// A child process, which writes the tallies of its job into a pipe.
struct Job {
  pid_t process = -1;
  int reads = -1;
};

Job start(const std::function<std::vector<Tally>()>& work) {
  int ends[2];
  check<StorageError>(::pipe(ends) == 0, "fuzz: no pipe for a job");
  std::fflush(nullptr);
  const pid_t process = ::fork();
  check<StorageError>(process >= 0, "fuzz: no process for a job");
  if (process != 0) {
    ::close(ends[1]);
    return {process, ends[0]};
  }
  std::FILE* out = ::fdopen(ends[1], "w");
  std::fputs(to_json(work()).c_str(), out);
  std::exit(std::fclose(out) == 0 ? 0 : 1);  // not _Exit: the leak check of a sanitizer runs at exit
}

/// The tallies of a job; empty if it crashed or leaked, which its own output explains.
std::vector<Tally> collect(const Job& job) {
  std::string text;
  char part[65536];
  for (ssize_t got; (got = ::read(job.reads, part, sizeof part)) > 0;) text.append(part, static_cast<std::size_t>(got));
  ::close(job.reads);
  int status = 0;
  ::waitpid(job.process, &status, 0);
  return status == 0 ? tallies_from(text) : std::vector<Tally>();
}

/// Runs every job and adds up the tallies. Sets `whole` to false if one of them crashed or leaked.
std::vector<Tally> run_jobs(const Campaign& campaign, const std::vector<Subject>& subjects,
                            const std::function<void()>& prepare, bool& whole) {
  const auto work = [&](std::uint64_t job) {
    watch_for_death(kHangSeconds);
    prepare();
    return run_job(campaign, subjects, job);
  };
  if (campaign.jobs == 1) return work(0);
  std::vector<Job> jobs;
  for (std::uint64_t job = 0; job < campaign.jobs; ++job) jobs.push_back(start([&, job] { return work(job); }));
  std::vector<Tally> all;
  for (const Subject& subject : subjects) all.push_back(tally_of(campaign, subject));
  for (const Job& job : jobs) {
    const std::vector<Tally> part = collect(job);
    whole = whole && part.size() == all.size();
    for (std::size_t i = 0; i < part.size(); ++i) all[i].add(part[i]);
  }
  return all;
}

int replay(const Campaign& campaign, const std::vector<Subject>& subjects, const std::function<void()>& prepare) {
  check<ArgumentError>(subjects.size() == 1, "{}: --input wants a {}", campaign.program, campaign.only_flag);
  watch_for_death(kHangSeconds);
  prepare();
  Tally t = tally_of(campaign, subjects[0]);
  const std::string words = subjects[0].judge(*campaign.input, t);
  std::printf("%s\n%.3f ms, %zu bytes of memory\n", words.c_str(), t.slowest * 1e3, t.most_memory);
  for (const std::string& failure : t.failures) std::printf("%s\n", failure.c_str());
  return t.failures.empty() ? 0 : 1;
}

}  // namespace

void declare(CLI::App& app, Campaign& campaign) {
  campaign.program = app.get_name();
  app.add_option(campaign.only_flag, campaign.only, "one of those that --list names (all of them)");
  // CLI11 would convert a negative number to a huge unsigned one.
  const CLI::Validator whole(
      [](const std::string& text) {
        return text.find_first_not_of("0123456789") == std::string::npos ? "" : "wanted a whole number, got " + text;
      },
      "");
  const auto number = [&](const char* flag, auto& value, const char* what) {
    app.add_option(flag, value, what)->check(whole)->type_name("N")->capture_default_str();
  };
  number("--seed", campaign.seed, "what the inputs are drawn from");
  number("--count", campaign.count, "how many inputs, shared out");
  number("--floor", campaign.floor, "fail when there were fewer inputs");
  number("--jobs", campaign.jobs, "processes that share the inputs");
  number("--reasons", campaign.reasons, "how many of the commonest refusals to print for each");
  number("--input", campaign.input, "this one input alone: what happens, how long, how much memory");
  app.add_option("--seconds", campaign.seconds, "stop after so long, whatever was reached");
  app.add_option("--json", campaign.json, "every count, into this file");
  app.add_flag("--list", campaign.list, "the names");
}

std::vector<Subject> chosen(const Campaign& campaign, std::vector<Subject> subjects) {
  std::erase_if(subjects, [&](const Subject& s) { return !campaign.only.empty() && s.name != campaign.only; });
  check<ArgumentError>(!subjects.empty(), "{}: there is no '{}'; --list names what there is", campaign.program,
                       campaign.only);
  if (subjects.size() == 1) subjects[0].inputs = campaign.count;
  return subjects;
}

int run(const Campaign& campaign, const std::vector<Subject>& subjects, const std::function<void()>& prepare) {
  if (campaign.list) {
    for (const Subject& s : subjects) std::printf("%-12s %s\n", s.name.c_str(), s.what.c_str());
    return 0;
  }
  check<ArgumentError>(campaign.jobs >= 1, "{}: --jobs wants 1 or more", campaign.program);
  if (campaign.input) return replay(campaign, subjects, prepare);
  bool sound = true;
  const std::vector<Tally> tallies = run_jobs(campaign, subjects, prepare, sound);
  std::fputs(to_text(tallies, campaign.reasons).c_str(), stdout);
  if (!sound)
    std::printf(
        "FAILED: a job ended by a crash, a leak or a sanitizer's report (see stderr); its inputs are not counted\n");
  if (!campaign.json.empty()) {
    std::ofstream file(campaign.json);
    file << to_json(tallies);
    check<StorageError>(file.good(), "{}: cannot write {}", campaign.program, campaign.json);
  }
  std::uint64_t executions = 0;
  for (const Tally& t : tallies) {
    executions += static_cast<std::uint64_t>(t.executions);
    sound = sound && t.failures.empty();
  }
  if (executions < campaign.floor)
    std::printf("FAILED: %llu inputs are fewer than the floor of %llu\n", static_cast<unsigned long long>(executions),
                static_cast<unsigned long long>(campaign.floor));
  return sound && executions >= campaign.floor ? 0 : 1;
}

}  // namespace binade::fuzz
