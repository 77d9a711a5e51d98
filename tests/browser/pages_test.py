"""Every page that the programs write, in headless Chromium: pages_test.py FOLDER_OF_PROGRAMS [--pictures FOLDER].

Wide and 420 px narrow, light, dark and printed: nothing on the console, no page wider than its window, no words of a plot
over each other, hostile names as text, at most 1 MB. Skipped, with a message, where there is no Chromium.
--pictures: a picture of each page in each form; how long each page takes to be painted is printed."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import chromium  # noqa: E402

PROGRAMS = os.path.abspath(sys.argv.pop(1))
PICTURES = None
if "--pictures" in sys.argv:
    at = sys.argv.index("--pictures")
    PICTURES = sys.argv[at + 1]
    del sys.argv[at : at + 2]
DATA = os.environ.get("PLUMBLINE_DATA", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data"))
STEP = ["llm", "--model", "llama-3.1-8b", "--gpu", "h200", "--phase", "decode", "--batch", "32", "--context", "4096"]
FORMS = {"wide": {"width": 1280}, "dark": {"width": 1280, "dark": True}, "phone": {"width": 420},
         "paper": {"width": 794, "printed": True}}  # fmt: skip
HOSTILE = "<script>window.hacked=1</script>\"'&<b onclick=x>"

# Words of plots that lie over each other: by their boxes, less a pixel of room, those that can be seen.
OVERLAPS = """(() => {
  const boxes = [];
  document.querySelectorAll('svg').forEach(svg => {
    if (svg.ownerSVGElement) return;
    const here = [];
    svg.querySelectorAll('text').forEach(text => {
      const box = text.getBoundingClientRect();
      if (box.width > 0 && getComputedStyle(text).display !== 'none') here.push([box, text.textContent]);
    });
    for (let i = 0; i < here.length; ++i) for (let j = i + 1; j < here.length; ++j) {
      const a = here[i][0], b = here[j][0];
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const tall = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 1 && tall > 3) boxes.push(here[i][1] + ' | ' + here[j][1]);
    }
  });
  return boxes.slice(0, 5);
})()"""
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def graph_of(operators, name):
    """A model of one layer with so many products, each under a name of its own."""
    products = [{"op": "linear", "name": f"{name} {number}", "in": 1024, "out": 1024} for number in range(operators)]
    stack = {"layers": {"all": {"ops": products}}, "order": "all"}
    return {"schema": "plumbline.graph.v1", "name": name, "hidden": 1024, "vocab": 32000, "stacks": [stack]}


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        program = chromium.found()
        if program is None:
            raise unittest.SkipTest("there is no Chromium here (Debian: chromium)")
        cls.folder = tempfile.TemporaryDirectory()
        try:
            cls.browser = chromium.Chromium(program)
        except (TimeoutError, ConnectionError, OSError) as error:
            raise unittest.SkipTest(f"Chromium does not run here: {error}") from error
        if PICTURES:
            os.makedirs(PICTURES, exist_ok=True)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    def place(self, name):
        return os.path.join(self.folder.name, name)

    def put(self, name, content):
        with open(self.place(name), "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return self.place(name)

    def page(self, name, words, program="predict-model", codes=(0,)):
        path = self.place(name + ".html")
        done = subprocess.run([os.path.join(PROGRAMS, program), *words, "--format", "html", "--out", path],
                              capture_output=True, text=True, check=False)  # fmt: skip
        self.assertIn(done.returncode, codes, done.stderr)
        self.assertLessEqual(os.path.getsize(path), 1_000_000, name)
        return path

    def look(self, name, path):
        """What must hold of a page in every form."""
        for form, how in FORMS.items():
            with self.subTest(page=name, form=form):
                seconds = self.browser.show(path, **how)
                print(f"{name}, {form}: {os.path.getsize(path) / 1e3:.0f} kB, painted after {1e3 * seconds:.0f} ms")
                self.assertEqual(self.browser.said, [])
                self.assertLessEqual(self.browser.value(WIDER), 1)
                self.assertEqual(self.browser.value(OVERLAPS), [])
                if PICTURES:
                    self.browser.picture(os.path.join(PICTURES, f"{name}-{form}.png"))

    def test_every_kind_of_page(self):
        kinds = {
            "step": STEP,
            "several_gpus": ["llm", "--model", "llama-3.1-70b", "--gpu", "h200", "--phase", "decode", "--tp", "8", "--batch", "64"],
            "generate": ["llm", "--model", "llama-3.1-8b", "--gpu", "h200", "--phase", "generate", "--output", "32"],
            "op": ["op", "gemm", "M=64", "N=4096", "K=4096", "--gpu", "h200"],
            "card": ["gpu", "h200"],
            "plan": ["plan", "--model", "llama-3.1-70b", "--gpu", "h200", "--gpus", "8", "--phase", "decode"],
            "sweep": ["sweep", *STEP[:-4], "--batch", "1:256:x2", "--context", "1k,4k,16k", "--columns",
                      "latency_s,tokens_per_s,flops,dram_bytes"],
            "front": ["sweep", *STEP[:-4], "--batch", "1:256:x2", "--set", "memory.bandwidth=4:8:0.5TB/s", "--columns",
                      "tokens_per_s,latency_s,tokens_per_J", "--pareto", "tokens_per_s,latency_s"],
            "tornado": ["sensitivity", *STEP],
            "tornado_op": ["sensitivity", "op", "gemm", "M=16", "N=4096", "K=4096", "--gpu", "h200"],
            "waterfall": ["diff", *STEP, "--against", "--gpu", "h100"],
            "solve": ["solve", *STEP, "--vary", "memory.bandwidth", "--target", "latency_s<=0.0095", "--target", "power_W<=700"],
        }  # fmt: skip
        for name, words in kinds.items():
            self.look(name, self.page(name, words))
        nothing = ["solve", *STEP, "--vary", "memory.bandwidth", "--target", "latency_s<=0.0001"]
        self.look("solve_none", self.page("solve_none", nothing, codes=(1,)))

    def test_two_hundred_operators(self):
        words = ["llm", "--model", self.put("two_hundred.json", graph_of(200, "layer product")), "--gpu", "h200"]
        self.look("step_200", self.page("step_200", [*words, "--phase", "decode"]))
        self.look("waterfall_200", self.page("waterfall_200", ["diff", *words, "--phase", "decode", "--against", "--gpu", "h100"]))
        sweep = ["sweep", "op", "gemm", "M=16:3200:16", "N=4096", "K=4096", "--gpu", "h200", "--columns", "latency_s,power_W"]
        self.look("sweep_200", self.page("sweep_200", sweep))

    def test_hostile_names_are_text(self):
        with open(os.path.join(DATA, "gpus", "h200_sxm.json"), encoding="utf-8") as file:
            card = json.load(file)
        card["name"] = card["title"] = HOSTILE
        card["aliases"] = []
        gpu = self.put("card.json", card)
        graph = self.put("graph.json", graph_of(3, HOSTILE))
        step = ["llm", "--model", graph, "--gpu", gpu, "--phase", "decode"]
        pages = {
            "hostile_step": step,
            "hostile_waterfall": ["diff", *step, "--against", "--gpu", "h100"],
            "hostile_tornado": ["sensitivity", *step],
            "hostile_sweep": ["sweep", "llm", "--model", "llama-3.2-1b", "--gpu", "h200", "--phase", "decode", "--batch", "1,2,4",
                              "--label", HOSTILE + "," + HOSTILE + "2"],
        }  # fmt: skip
        for name, words in pages.items():
            self.look(name, self.page(name, words))
            self.assertIsNone(self.browser.value("window.hacked === undefined ? null : window.hacked"))
            self.assertLessEqual(self.browser.value("document.querySelectorAll('script').length"), 1)
            self.assertEqual(self.browser.value("document.querySelectorAll('b[onclick]').length"), 0)

    def test_tables_sort_and_keep_rows_by_words(self):
        """On the page of each kind of study: downwards by a column of numbers, then the rows that hold a word."""
        pages = {
            "sorted_sweep": (["sweep", *STEP[:-4], "--batch", "1:256:x2", "--columns", "latency_s,tokens_per_s"], 2, "256"),
            "sorted_tornado": (["sensitivity", *STEP], 2, "memory.bandwidth"),
            "sorted_waterfall": (["diff", *STEP, "--against", "--gpu", "h100"], 1, "attention"),
        }
        for name, (words, column, kept) in pages.items():
            with self.subTest(page=name):
                self.browser.show(self.page(name, words), 1280)
                cells = self.browser.value(f"""(() => {{
                  const table = document.querySelector('table.sorts'), heading = table.tHead.rows[0].cells[{column}];
                  heading.click(); heading.click();
                  return Array.from(table.tBodies[0].rows).map(row => row.cells[{column}].textContent); }})()""")
                scale = {"n": 1e-9, "u": 1e-6, "m": 1e-3}

                def number(text):
                    parts = text.split()
                    return float(parts[0]) * (scale.get(parts[1][0], 1) if len(parts) > 1 and len(parts[1]) > 1 else 1)

                numbers = [number(cell) for cell in cells]
                self.assertEqual(numbers, sorted(numbers, reverse=True))
                self.assertGreater(len(set(numbers)), 3)
                shown = self.browser.value(f"""(() => {{
                  const field = document.querySelector('input.filter'), table = document.querySelector('table.sorts');
                  field.value = '{kept}'; field.dispatchEvent(new Event('input'));
                  return Array.from(table.tBodies[0].rows).filter(row => !row.hidden).map(row => row.textContent); }})()""")
                self.assertTrue(0 < len(shown) < len(cells))
                self.assertTrue(all(kept in row for row in shown), shown)
                self.assertEqual(self.browser.said, [])

    def test_plots_alone_are_pictures(self):
        for name, words in {"tornado": ["sensitivity", *STEP], "waterfall": ["diff", *STEP, "--against", "--gpu", "h100"]}.items():
            path = self.place(name + ".svg")
            subprocess.run([os.path.join(PROGRAMS, "predict-model"), *words, "--format", "svg", "--out", path], check=True)
            self.browser.show(path, 1000)
            self.assertEqual(self.browser.said, [])
            self.assertEqual(self.browser.value("document.documentElement.tagName"), "svg")
            self.assertGreater(self.browser.value("document.querySelectorAll('rect').length"), 5)
            if PICTURES:
                self.browser.picture(os.path.join(PICTURES, f"{name}-alone.png"), False)


if __name__ == "__main__":
    unittest.main(verbosity=1)
