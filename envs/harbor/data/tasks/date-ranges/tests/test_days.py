import unittest
from datetime import date

from ranges import days, merge


class Days(unittest.TestCase):
    def test_ranges_that_touch_are_joined(self):
        first, second = (date(2025, 1, 1), date(2025, 1, 3)), (date(2025, 1, 4), date(2025, 1, 5))
        self.assertEqual(merge([first, second]), [(date(2025, 1, 1), date(2025, 1, 5))])

    def test_days_are_counted_once(self):
        self.assertEqual(days([(date(2025, 1, 1), date(2025, 1, 3)), (date(2025, 1, 2), date(2025, 1, 4))]), 4)


if __name__ == "__main__":
    unittest.main()
