"""A person at the pages: signs in by the one-time link, and answers held calls by the forms that the pages show."""

import html.parser
import http.cookiejar
import time
import urllib.parse
import urllib.request


class Forms(html.parser.HTMLParser):
    """The forms of a page: address, and fields with their values; boxes are ticked."""

    def __init__(self):
        super().__init__()
        self.forms = []
        self.open = None

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "form":
            self.open = (given.get("action", ""), {})
            self.forms.append(self.open)
        elif tag == "input" and self.open and given.get("name"):
            self.open[1][given["name"]] = given.get("value") or ("yes" if given.get("type") == "checkbox" else "")

    def handle_endtag(self, tag):
        if tag == "form":
            self.open = None


class Person:
    def __init__(self, address, link):
        self.address = address
        jar = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(jar))
        action, fields = next(form for form in self.forms(link) if "token" in form[1])
        self.post(action or link, fields)

    def get(self, path):
        with self.opener.open(urllib.parse.urljoin(self.address, path), timeout=30) as answer:
            return answer.read().decode()

    def post(self, path, fields):
        data = urllib.parse.urlencode(fields).encode()
        request = urllib.request.Request(urllib.parse.urljoin(self.address, path), data, {"Origin": self.address})
        try:
            with self.opener.open(request, timeout=30) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.read().decode()

    def forms(self, path):
        parser = Forms()
        parser.feed(self.get(path))
        return parser.forms

    def held(self, approval, word):
        """The form that answers a held call, or None when it is not to be answered any more."""
        ends = f"/approvals/{approval}/{word}"
        return next((form for form in self.forms(f"/approvals/{approval}") if form[0].endswith(ends)), None)

    def newest(self, caller, seconds=30):
        """The held call of this caller, once there is one."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for action, _ in self.forms("/approvals"):
                approval = action.split("/")[-2] if action.endswith("/approve") else None
                if approval and f"key:{caller}" in self.get(f"/approvals/{approval}"):
                    return approval
            time.sleep(0.2)
        raise AssertionError(f"no call of {caller} is held")

    def answer(self, approval, word):
        action, fields = self.held(approval, word)
        return self.post(action, fields)


