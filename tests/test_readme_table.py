"""The README's configuration table is what the option table generates."""
import os
import unittest

import readme_table


class ReadmeTable(unittest.TestCase):

    def test_equal(self):
        build = os.environ.get('GPUPOOL_TEST_BUILD') or os.path.join(
            os.path.dirname(readme_table.README), 'build')
        _, table, _ = readme_table.split(readme_table.read())
        self.assertEqual(
            table, readme_table.generate(os.path.join(build, 'gpupool-conf')),
            'README.md is not up to date: make readme')


if __name__ == '__main__':
    unittest.main()
