"""Write the tables of options in docs/reference/settings.md from the fields of RunConfig; --check: compare only."""

from __future__ import annotations

import sys
from pathlib import Path

from majority.run.config_file import settings_page

PAGE = Path(__file__).parents[1] / "docs/reference/settings.md"
BEGIN, END = "<!-- options: scripts/settings_page.py -->\n", "<!-- end of options -->\n"


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    made = f"{before}{BEGIN}\n{settings_page()}\n\n{END}{after}"
    if "--check" not in sys.argv:
        PAGE.write_text(made, encoding="utf-8")
    elif made != text:
        sys.exit(f"{PAGE} is not what the fields say: run python scripts/settings_page.py")


if __name__ == "__main__":
    main()
