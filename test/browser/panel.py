# SPDX-License-Identifier: Apache-2.0
"""The panel of a viewer page: its folders, tabs, sliders, boxes and buttons, by their labels."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from browser.waiting import wait_for


class Panel:
    """The panel beside the scene."""

    def __init__(self, driver) -> None:
        self.driver = driver

    def set_slider(self, label: str, value: float, folder: str = "") -> None:
        """Type a value into the number field of a slider.

        Args:
            label: beginning of the slider's label, such as ``joint1``.
            value: what to type.
            folder: name of its folder; empty for any.
        """
        from selenium.webdriver.common.keys import Keys

        field = self._field(label, folder)
        field.click()
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(f"{value:g}", Keys.ENTER)

    @contextmanager
    def held_slider(self, label: str, folder: str = "") -> Iterator[Callable[[float], None]]:
        """Hold a slider; yields a function that moves it to a share of its length, 0 to 1."""
        from selenium.webdriver.common.action_chains import ActionChains

        thumb = self._thumb(label, folder)
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", thumb)
        slider = self._find(f"//*[@id='{self._id(label, folder)}']")
        width = slider.size["width"]
        ActionChains(self.driver).click_and_hold(thumb).perform()

        def move(share: float) -> None:
            hand = ActionChains(self.driver, duration=20)
            hand.move_to_element_with_offset(slider, round((share - 0.5) * width), 0).perform()

        try:
            yield move
        finally:
            ActionChains(self.driver).release().perform()

    def _thumb(self, label: str, folder: str):
        """Return the thumb of a slider."""
        return wait_for(
            lambda: self._find(f"//*[@id='{self._id(label, folder)}']//*[@role='slider']"),
            f"the slider '{label}' appears",
        )

    def nudge_slider(self, label: str, steps: int, folder: str = "") -> None:
        """Move a slider by arrow keys, to the right for positive steps."""
        from selenium.webdriver.common.keys import Keys

        thumb = self._thumb(label, folder)
        key = Keys.ARROW_RIGHT if steps > 0 else Keys.ARROW_LEFT
        self.driver.execute_script("arguments[0].focus()", thumb)
        thumb.send_keys(key * abs(steps))

    def slider_value(self, label: str, folder: str = "") -> float:
        """Return the value in the number field of a slider."""
        return float(self._field(label, folder).get_attribute("value") or "nan")

    def type_text(self, label: str, text: str, folder: str = "") -> None:
        """Replace the contents of a text field."""
        from selenium.webdriver.common.keys import Keys

        # A multi-line field does not have the id that its label refers to.
        at = f"//label[@for='{self._id(label, folder)}']/following::*"
        field = self._find(f"({at}[self::input or self::textarea])[1]")
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", field)
        field.click()
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(text)

    def choose(self, label: str, option: str, folder: str = "") -> None:
        """Choose an option of a dropdown."""
        field = self.driver.find_element("id", self._id(label, folder))
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", field)
        field.click()
        path = f"//*[@role='option'][normalize-space()='{option}']"
        wait_for(lambda: self._shown(path), f"the option '{option}' appears").click()

    def check(self, label: str, on: bool, folder: str = "") -> None:
        """Switch a checkbox."""
        box = self.driver.find_element("id", self._id(label, folder))
        if box.is_selected() != on:
            self.driver.execute_script("arguments[0].click()", box)

    def is_checked(self, label: str, folder: str = "") -> bool:
        """Return whether a checkbox is on."""
        return bool(self.driver.find_element("id", self._id(label, folder)).is_selected())

    def tab(self, name: str, folder: str = "") -> None:
        """Open a tab of the panel."""
        path = f"{_inside(folder)}//*[@role='tab'][normalize-space()='{name}']"

        def opened() -> bool:
            tab = self._find(path)
            if tab is None:
                return False
            if tab.get_attribute("aria-selected") != "true":
                self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", tab)
                tab.click()
            return tab.get_attribute("aria-selected") == "true"

        wait_for(opened, f"the tab '{name}' opens")

    def open_folder(self, name: str) -> None:
        """Open a folder of the panel that is closed at first."""
        path = f"//div[contains(@class, 'Paper')]/div[normalize-space(text())='{name}']"
        title = wait_for(lambda: self._find(path), f"the folder '{name}' appears")
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", title)
        folder = title.find_element("xpath", "..")
        heights = [folder.size["height"]]
        title.click()

        def at_rest() -> bool:
            # It opens slowly, and its contents move meanwhile.
            heights.append(folder.size["height"])
            return heights[0] < heights[-1] == heights[-2]

        wait_for(at_rest, f"the folder '{name}' opens")

    def tap_title(self, title: str) -> None:
        """Tap the title of the panel, which opens and closes it on a phone."""
        found = wait_for(
            lambda: self._find(f"//*[not(*)][normalize-space()='{title}'][not(self::title)]"),
            f"the title '{title}' appears",
        )
        found.click()

    def click(self, label: str, folder: str = "") -> None:
        """Click a button."""
        with self.held(label, folder):
            pass

    @contextmanager
    def held(self, label: str, folder: str = "") -> Iterator[None]:
        """Hold a button down."""
        from selenium.webdriver.common.action_chains import ActionChains

        button = self.button(label, folder)
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
        ActionChains(self.driver).click_and_hold(button).perform()
        try:
            yield
        finally:
            ActionChains(self.driver).release().perform()

    def button(self, label: str, folder: str = ""):
        """Return a button."""
        return wait_for(
            lambda: self._shown(f"{_inside(folder)}//button[normalize-space()='{label}']"),
            f"the button '{label}' appears",
        )

    def _id(self, label: str, folder: str) -> str:
        """Return the id of the element with a label."""
        path = f"{_inside(folder)}//label[@for][starts-with(normalize-space(), '{label}')]"
        found = wait_for(lambda: self._find(path), f"'{label}' appears in the panel")
        return str(found.get_attribute("for"))

    def _field(self, label: str, folder: str):
        """Return the number field beside a slider."""
        path = f"//*[@id='{self._id(label, folder)}']/following-sibling::*//input"
        field = wait_for(lambda: self._find(path), f"the number field of '{label}' appears")
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", field)
        return field

    def _find(self, path: str):
        """Return the first element at an XPath, or None."""
        found = self._all(path)
        return found[0] if found else None

    def _shown(self, path: str):
        """Return the first element at an XPath that has a size, or None."""
        return next((found for found in self._all(path) if found.size["height"]), None)

    def _all(self, path: str) -> list:
        """Return all elements at an XPath."""
        return list(self.driver.find_elements("xpath", path))


def _inside(folder: str) -> str:
    """Return the XPath of a folder of the panel."""
    if not folder:
        return ""
    # The folder is the paper around the paper that holds its title.
    title = f"normalize-space(text())='{folder}' or starts-with(text(), '{folder} (')"
    return f"//div[contains(@class, 'Paper')][./div[{title}]]"
