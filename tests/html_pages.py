"""Pages of HTML, as a browser takes them."""

from html.parser import HTMLParser

VOID = {"meta", "img", "br", "path", "use", "rect"}


class Page(HTMLParser):
    """Tags with their attributes, the text, and whether every tag is closed where it was opened."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.open = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, *names):
        return [attributes for tag, attributes in self.tags if tag in names]
