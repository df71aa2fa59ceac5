"""manual_test.py SOURCE: makes the manual (docs/manual.py) without a warning, and checks that it lacks no documentation."""
import importlib.util
import os
import shutil
import sys
import tempfile
import unittest

SOURCE = sys.argv[1]
spec = importlib.util.spec_from_file_location("manual", SOURCE + "/docs/manual.py")
manual = importlib.util.module_from_spec(spec)
spec.loader.exec_module(manual)


class Pages(unittest.TestCase):
    KNOWN = {"README.md", "docs/a.md", "docs/b.md", "docs/decisions/README.md"}

    def filtered(self, text, page="docs/a.md"):
        return manual.filtered(page, text, self.KNOWN)

    def test_headings_get_names_that_are_unique_in_the_manual(self):
        self.assertEqual(self.filtered("# A\n## `x()`, and y\n## Notes\n## Notes"),
                         "# A {#page-docs-a}\n## `x()`, and y {#page-docs-a--x-and-y}\n## Notes {#page-docs-a--notes}\n"
                         "## Notes {#page-docs-a--notes-1}")
        self.assertEqual(self.filtered("# Binade", "README.md"), "# Binade {#mainpage}")

    def test_links_lead_to_pages_and_sections(self):
        for link, wanted in (("[b](b.md)", "[b](@ref page-docs-b)"), ("[here](#notes)", "[here](@ref page-docs-a--notes)"),
                             ("[b's](b.md#two-words)", "[b's](@ref page-docs-b--two-words)"), ("[all](decisions/)", "[all](@ref page-docs-decisions-README)"),
                             ("[home](../README.md)", "[home](@ref mainpage)"), ("[site](https://x.org/b.md)", "[site](https://x.org/b.md)"),
                             ("[a file](../core/tensor.h)", "a file"), ("![picture](pictures/p.svg)", "![picture](pictures/p.svg)")):
            self.assertEqual(self.filtered(link), wanted)

    def test_code_stays_as_it_is(self):
        code = "```sh\n# a comment\n[b](b.md)\n```"
        self.assertEqual(self.filtered(code), code)


@unittest.skipUnless(shutil.which("doxygen"), "no Doxygen")
class Manual(unittest.TestCase):
    def test_it_is_made_without_a_warning(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(manual.make(folder), [])
            with open(folder + "/index.html", encoding="utf-8") as file:
                self.assertIn("commits whole or leaves", file.read())
            for page in ("page-docs-features.html", "page-docs-decisions-README.html", "classbinade_1_1nn_1_1Module.html", "search/search.js"):
                self.assertTrue(os.path.exists(f"{folder}/{page}"), page)

    def test_the_number_of_undocumented_entities_does_not_grow(self):
        found, allowed = manual.undocumented(), manual.recorded()
        self.assertGreater(len(found), 0, "Doxygen reports nothing: does it read the headers?")
        count, most = sum(map(len, found.values())), sum(allowed.values())
        print(f"{count} public entities without documentation, at most {most}")
        grown = [f"{header}:{name}" for header, names in sorted(found.items()) if len(names) > allowed.get(header, 0) for name in names]
        self.assertLessEqual(count, most, "document these, or as many others:\n" + "\n".join(grown))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
