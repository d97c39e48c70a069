"""Uses the page of a control service in a headless Chromium: page_in_browser.py URL TOKEN FOLDER.

Prints nothing and ends with status 0 if the page shows the run, its curves move, its buttons act and
the console has no error. Leaves screenshots of three sizes in FOLDER. Exit status 77: there is no
browser.
"""
import sys
import time

try:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    print("python3-selenium is not installed")
    sys.exit(77)

LIMIT = 300  # seconds for what is expected to happen; generous, for a busy machine
URL, TOKEN, FOLDER = sys.argv[1:4]


def browser(*preferences):
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", *preferences):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options)


def wait(what, condition):
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    sys.exit(f"{what}: not within {LIMIT} s")


def check(what, holds):
    if not holds:
        sys.exit(what)


try:
    page = browser()
except Exception as error:  # no chromium or no driver for it
    print(f"chromium does not start: {str(error).splitlines()[0]}")
    sys.exit(77)
try:
    text = lambda id: page.find_element(By.ID, id).text
    points = lambda: page.execute_script(
        "const l = document.querySelector('#loss polyline'); return l ? l.getAttribute('points') : ''")
    # Without the token the page shows all, and its buttons do nothing.
    page.get(URL)
    wait("the state", lambda: text("state") == "training")
    check("controls without a token", not page.find_element(By.CSS_SELECTOR, "[data-action=pause]").is_enabled())
    before = wait("a curve", points)
    wait("a curve that moves", lambda: points() not in ("", before))
    # A link brings the token, which does not stay in the address.
    page.get("about:blank")
    page.get(f"{URL}/#token={TOKEN}")
    wait("the controls", lambda: page.find_element(By.CSS_SELECTOR, "[data-action=pause]").is_enabled())
    check("the token stays in the address", TOKEN not in page.current_url)
    wait("the state", lambda: text("state") == "training")
    # By keyboard alone.
    page.find_element(By.CSS_SELECTOR, "[data-action=pause]").send_keys(Keys.ENTER)
    wait("a pause", lambda: text("state") == "paused")
    page.find_element(By.ID, "rate").send_keys("0.125", Keys.ENTER)
    wait("the rate's answer", lambda: "learning rate: done" in text("answer"))
    page.find_element(By.CSS_SELECTOR, "[data-action=snapshot]").send_keys(Keys.SPACE)
    wait("a snapshot", lambda: "solverstate" in text("facts"))
    page.find_element(By.CSS_SELECTOR, "[data-action=resume]").click()
    wait("training again", lambda: text("state") == "training")
    wait("the rate", lambda: "set by hand" in text("facts"))
    wait("events", lambda: all(each in text("events") for each in ("paused", "snapshot", "learning rate set to 0.125")))
    for name, width, height in (("phone", 375, 812), ("tablet", 820, 1180), ("desktop", 1280, 900)):
        page.set_window_size(width, height)
        time.sleep(0.3)  # for the picture only
        page.save_screenshot(f"{FOLDER}/page-{name}.png")
        inner, content = page.execute_script("return [window.innerWidth, document.documentElement.scrollWidth]")
        check(f"{name}: {content} pixels of content in a window of {inner}", content <= inner)
    # Each control has a name that a screen reader reads.
    nameless = page.execute_script("""
        return [...document.querySelectorAll('button, input, select, svg, progress')].filter((each) =>
            !(each.textContent.trim() || each.getAttribute('aria-label') || each.getAttribute('aria-labelledby') ||
              (each.labels && each.labels.length > 0))).map((each) => each.outerHTML)""")
    check(f"without a name: {nameless}", not nameless)
    problems = [entry["message"] for entry in page.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    check(f"the console has errors: {problems}", not problems)
    page.find_element(By.CSS_SELECTOR, "[data-action=stop]").click()
    wait("the question", lambda: page.find_element(By.ID, "confirm-yes").is_displayed())
    page.find_element(By.ID, "confirm-yes").click()
    wait("the end", lambda: text("state") in ("stopping", "ended", "no connection"))
finally:
    page.quit()
