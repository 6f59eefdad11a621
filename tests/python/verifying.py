"""What the tests of `accel verify --all` and of `accel matrix` share: small directories of goldens, plugins of which one can be made to fail, a database."""
import glob
import json
import os
import shutil
import sqlite3
import time

from test_cli import BUILD, FIXTURES, Case, run

MODELS = os.path.join(FIXTURES, "models")
PLUGINS = os.path.dirname(glob.glob(os.path.join(BUILD, "lib", "accel", "*", "libaccel_reference.so"))[0])
BENT = os.path.join(BUILD, "tests", "stubs", "bent", "libaccel_rocm.so")
BERT = ("golden.BertModel.right.safetensors", "golden.BertForMaskedLM.right.safetensors")


class VerifyCase(Case):
    def setUp(self):
        super().setUp()
        self.db = self.path("truth.sqlite")
        plugins = self.path("plugins")
        os.mkdir(plugins)
        for name in ("cpu", "reference"):
            os.symlink(os.path.join(PLUGINS, f"libaccel_{name}.so"), os.path.join(plugins, f"libaccel_{name}.so"))
        if os.path.exists(BENT):
            os.symlink(BENT, os.path.join(plugins, "libaccel_rocm.so"))
        self.environment = {"ACCEL_PLUGIN_PATH": plugins, "STUB_BENT_PATH": os.path.join(PLUGINS, "libaccel_reference.so"), "ACCEL_NO_CACHE": "1"}

    def goldens(self, *names, model="bert", to="models"):
        """A directory with a copy of a model and some of its goldens."""
        source, target = os.path.join(MODELS, model), os.path.join(self.path(to), model)
        os.makedirs(target)
        for name in os.listdir(source):
            if not name.startswith("golden") or name in names:
                shutil.copy(os.path.join(source, name), target)
        return self.path(to)

    def all(self, *arguments, code=0, **environment):
        """The parsed report."""
        done = run("verify", "--all", *arguments, "--db", self.db, "--json", "--quiet", timeout=1800, environment={**self.environment, **environment})
        self.assertEqual(done.returncode, code, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["schema"], "accel.verify_all/1")
        return report

    def query(self, sql, *values):
        file = sqlite3.connect(self.db)
        try:
            return file.execute(sql, values).fetchall()
        finally:
            file.close()

    def wait_for(self, process, sql, least):
        """Until a query gives at least so much, or the process has ended."""
        while process.poll() is None:
            try:
                if self.query(sql)[0][0] >= least:
                    return
            except sqlite3.OperationalError:  # no file, or no table yet
                pass
            time.sleep(0.002)

    def change(self, sql):
        file = sqlite3.connect(self.db)
        file.executescript(sql)
        file.close()
