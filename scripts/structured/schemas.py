"""Fifty JSON schemas of rising difficulty, each with a question that it suits."""


def obj(**properties):
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def text(n=24):
    return {"type": "string", "maxLength": n}


def whole(low=0, high=100):
    return {"type": "integer", "minimum": low, "maximum": high}


def one_of(*values):
    return {"enum": list(values)}


def some(items, low=1, high=3):
    return {"type": "array", "items": items, "minItems": low, "maxItems": high}


YES = {"type": "boolean"}
NUMBER = {"type": "number", "minimum": 0, "maximum": 1000}
DATE = {"type": "string", "pattern": "^[12][0-9]{3}-[01][0-9]-[0-3][0-9]$"}
PERSON = obj(name=text(), age=whole(0, 120))
NODE = {
    "$defs": {"node": {
        "type": "object",
        "properties": {
            "value": whole(0, 9),
            "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
        },
        "required": ["value", "next"],
        "additionalProperties": False,
    }},
    "$ref": "#/$defs/node",
}
CONTACT = {"anyOf": [obj(kind={"const": "mail"}, address=text()), obj(kind={"const": "phone"}, number=text(12))]}

EASY = [
    ("Is the sky blue?", YES),
    ("How many legs has a dog?", whole(0, 8)),
    ("The capital of France?", text()),
    ("Red, green or blue: which is the colour of grass?", one_of("red", "green", "blue")),
    ("Name a river.", obj(river=text())),
    ("Who wrote Hamlet?", obj(author=text(), year=whole(1500, 1700))),
    ("Is 7 prime?", obj(number=whole(), prime=YES)),
    ("Two fruits.", some(text(12), 2, 2)),
    ("What does a litre of milk cost?", obj(price=NUMBER, currency=one_of("EUR", "USD"))),
    ("When did the first man walk on the moon?", obj(date=DATE)),
]
MIDDLE = [
    ("Describe a cat.", obj(animal=text(), legs=whole(0, 8), tame=YES, sounds=some(text(10)))),
    ("Invent a person.", PERSON),
    ("Invent two people.", some(PERSON, 2, 2)),
    ("A recipe for tea.", obj(title=text(), minutes=whole(1, 60), steps=some(text(40), 1, 3))),
    ("Rate this text: I love it.", obj(sentiment=one_of("good", "bad", "mixed"), confidence=whole())),
    ("Where is the Eiffel Tower?", obj(city=text(), country=text(), coordinates=obj(lat=NUMBER, lon=NUMBER))),
    ("A meeting on Monday.", obj(title=text(), day=one_of("Mon", "Tue"), hour=whole(0, 23), online=YES)),
    ("Give me three primes.", obj(primes=some(whole(2, 50), 3, 3))),
    ("How can I reach you?", obj(contact=CONTACT)),
    ("A shirt, please.", obj(size=one_of("S", "M", "L"), colour=text(10), count=whole(1, 9), gift=YES)),
]
HARD = [
    ("Write a short list.", NODE),
    ("A team.", obj(lead=PERSON, members=some(PERSON, 1, 2), contact=CONTACT)),
    ("An order with two items.", obj(
        id={"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"},
        items=some(obj(sku=text(8), count=whole(1, 9), price=NUMBER), 2, 2),
        paid=YES,
    )),
    ("A small table.", obj(columns=some(text(8), 2, 2), rows=some(some(whole(), 2, 2), 1, 2))),
    ("A point, a line or nothing.", {"anyOf": [
        obj(x=whole(), y=whole()), obj(**{"from": whole(), "to": whole()}), {"type": "null"}]}),
    ("A mail address.", obj(mail={"type": "string", "format": "email"})),
    ("A day and a time.", obj(date={"type": "string", "format": "date"}, time={"type": "string", "pattern": "^[0-2][0-9]:[0-5][0-9]$"})),
    ("A quoted \"word\" and a\nnew line.", obj(word=text(12), escaped={"const": "a\"b\\c\n"})),
    ("Ein Satz auf Deutsch, ein Wort 中文.", obj(deutsch=text(30), chinese=text(6), emoji=one_of("🙂", "é", "ß"))),
    ("A tree of folders.", obj(name=text(10), files=some(obj(name=text(10), bytes=whole(0, 9999)), 0, 2),
                               folder={"anyOf": [obj(name=text(10), files=some(text(10), 0, 2)), {"type": "null"}]})),
]
BASE = EASY + MIDDLE + HARD
# The rest: two of them in one document.
PAIRS = [(f"{BASE[i][0]} {BASE[-i - 1][0]}", obj(first=BASE[i][1], second=BASE[-i - 1][1]))
         for i in range(29) if "$defs" not in BASE[i][1] and "$defs" not in BASE[-i - 1][1]][:20]
SCHEMAS = BASE + PAIRS
DIFFICULTIES = {"easy": EASY, "middle": MIDDLE, "hard": HARD, "two in one": PAIRS}
assert len(SCHEMAS) == 50, len(SCHEMAS)
