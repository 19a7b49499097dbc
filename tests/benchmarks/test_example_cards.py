"""The page of the examples' cards says what the cards say."""

import example_cards

from leaklab.records.files import read_json


def test_every_example_has_a_card_and_the_page_shows_them():
    cards = {file.stem: read_json(file) for file in sorted(example_cards.CARDS.glob("*.json"))}
    assert sorted(cards) == example_cards.names()
    assert example_cards.PAGE.read_text(encoding="utf-8") == example_cards.page(cards)
    for name, card in cards.items():
        assert f"({name}.py)" in example_cards.page(cards)
        assert card["verdict"] in example_cards.STATUS
