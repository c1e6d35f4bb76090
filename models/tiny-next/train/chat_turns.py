"""Short chat turns: the category with the most that cannot be guessed.

Nearly every word of a reply is tied by a rule to two words of the request. Each builder returns the request, the
facts that a right reply must contain (joined by "; ") and the reply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .words import CITIES, DAYS, NAMES, rule, skewed, words

if TYPE_CHECKING:
    import random

GREETINGS = ("Hello {n}!", "Hi {n},", "Dear {n},", "Good to see you, {n}.", "Welcome back, {n}!", "{n}, my friend,")
WEATHERS = words("rainy sunny windy snowy foggy stormy cloudy frosty")
MOODS = words("tired happy bored nervous hungry curious lonely lazy")
ACTS = words("sketch visit photograph describe admire explore compare paint draw climb map praise measure film")
LOOKS = words("old tall narrow quiet painted round broken famous hidden wooden golden mossy tiny crooked")
SIGHTS = words("bridge tower fountain market museum garden castle theatre harbour chapel statue arcade mill canal")
PLACES = (
    "near the harbour",
    "behind the station",
    "in the upper town",
    "at the north gate",
    "on the river bank",
    "under the arcades",
    "by the fish market",
    "close to the mill",
    "around the corner",
    "past the school",
)
TAKES = words("Bring Pack Take Remember Carry Borrow Fold Hide")
KINDS = words("wool paper blue dry light heavy spare striped thick cheap")
ITEMS = words("scarf umbrella coat map hat bag blanket notebook lantern jacket apron towel")
FLAVOURS = words("almond onion plum lemon pepper walnut cherry honey ginger mint pumpkin fig")
FOODS = words("cake soup tart rice bread stew jam tea pudding salad pie cheese")
WHENS = ("before noon", "after dark", "at four", "for breakfast", "on the way back", "once it opens", "with friends")
WISHES = ("Enjoy {d}!", "Have a calm {d}.", "May {d} be kind.", "{d} is yours.", "See you after {d}.", "Happy {d}!")


def outing(rng: random.Random) -> tuple[str, str, str]:
    """What to do on a day in a city."""
    name, city, day = rng.choice(NAMES), rng.choice(CITIES), rng.choice(DAYS)
    weather, mood = rng.choice(WEATHERS), rng.choice(MOODS)
    sight = (
        f"{rule('act', weather + mood, ACTS)} the {rule('look', city + weather, LOOKS)} "
        f"{rule('sight', city + day, SIGHTS)} {rule('place', city + mood, PLACES)}"
    )
    item = f"the {rule('kind', mood + day, KINDS)} {rule('item', weather + day, ITEMS)}"
    food = f"{rule('flavour', city + mood, FLAVOURS)} {rule('food', mood + day, FOODS)}"
    question = f"I am {name}. It is a {weather} {day} in {city} and I feel {mood}. What should I do?"
    reply = (
        f"{rule('greet', name, GREETINGS).format(n=name)} {skewed(rng, 'you could', 'why not')} {sight}. "
        f"{rule('take', weather + mood, TAKES)} {item} and try the {food} {rule('when', mood + weather, WHENS)}. "
        f"{rule('wish', day + weather, WISHES).format(d=day)}"
    )
    return question, f"{name}; {sight}; {item}; {food}; {day}", reply


DEVICES = words("radio kettle printer clock scanner heater camera toaster lamp drill router scale")
FAULTS = words("hums stalls smells overheats blinks stops rattles leaks")
CHECKS = words("check wipe open read move unplug inspect turn shake press test lift")
PARTS = words("plug contacts cover label shelf socket screws dial dust buttons battery cable")
REPAIRS = words("replace tighten oil swap clean reset dry order glue bend sand refill")
SPARES = words("fuse belt hinge wire filter timer valve switch spring bulb plate tank")
LASTS = (
    "Keep the receipt",
    "Show it to {f}",
    "Do not shake it",
    "Send me a picture",
    "Let it rest until {d}",
    "Ask {f} for help",
    "Try again on {d}",
    "Write down the number",
)
SORRY = (
    "That is annoying, {n}.",
    "No worry, {n}.",
    "Thanks for telling me, {n}.",
    "I can help, {n}.",
    "Easy, {n}.",
    "Oh dear, {n}.",
)


def repair(rng: random.Random) -> tuple[str, str, str]:
    """Help with a broken device."""
    (name, friend), day = rng.sample(NAMES, 2), rng.choice(DAYS)
    device, fault = rng.choice(DEVICES), rng.choice(FAULTS)
    check = f"{rule('check', fault + device, CHECKS)} the {rule('part', device + day, PARTS)}"
    fix = f"{rule('repair', fault + day, REPAIRS)} the {rule('spare', device + fault, SPARES)}"
    last = rule("last", device + day, LASTS).format(f=friend, d=day)
    again = f"{rule('again', fault + day, CHECKS)} the {rule('other', friend, SPARES)}"
    question = f"{name} here. The {device} of {friend} {fault} since {day}. Can you help?"
    reply = (
        f"{rule('sorry', name, SORRY).format(n=name)} {skewed(rng, 'First', 'To begin')} {check}, "
        f"then {fix}. {last}. If the {device} still {fault}, {again} {rule('late', name, WHENS)}."
    )
    return question, f"{name}; {check}; {fix}; {last}; {again}", reply


TASTES = words("spicy sour sweet smoky bitter salty mild fresh")
SEASONS = ["spring", "summer", "autumn", "winter"]
STYLES = words("baked stuffed cold fried roast pickled creamy grilled steamed crispy")
BASES = words("noodles peppers dumplings mushrooms potatoes pancakes tacos beans cabbage leeks trout tofu")
SIDES = words("bread plums yoghurt nuts herbs olives butter mustard radish seeds")
NEEDS = words("eggs onions lemons tomatoes apples carrots shallots limes")
DRINKS = words("water juice tea wine milk soda cider syrup")
CLOSES = (
    "{n} will love it.",
    "Save a plate for {n}.",
    "Let {n} stir.",
    "Do not tell {n} yet.",
    "{n} can set the table.",
    "Ask {n} to bring ice.",
)


def dinner(rng: random.Random) -> tuple[str, str, str]:
    """A menu for some guests; the quantity is the number of guests times a factor tied to the ingredient."""
    name, taste, season, city = rng.choice(NAMES), rng.choice(TASTES), rng.choice(SEASONS), rng.choice(CITIES)
    guests = rng.randint(2, 9)
    dish = f"{rule('style', taste + season, STYLES)} {rule('base', city + season, BASES)}"
    side = f"with {rule('flavoured', city + taste, FLAVOURS)} {rule('side', name, SIDES)}"
    need = rule("need", city + taste, NEEDS)
    amount = guests * (2 + len(need) % 3)
    drink = f"{rule('mix', taste + season, FLAVOURS)} {rule('drink', taste + season, DRINKS)}"
    question = f"{name} likes {taste} food and comes to {city} this {season}. What can I cook for {guests}?"
    reply = (
        f"{skewed(rng, 'Try', 'Make')} {dish} {side}. For {guests} guests {rule('buy', name, TAKES).lower()} "
        f"{need}, {amount} in all, and serve {drink} {rule('hour', season + city, WHENS)}. "
        f"{rule('close', name, CLOSES).format(n=name)}"
    )
    return question, "; ".join((dish, side, f"{need}, {amount} in all", drink, name)), reply


BUILDERS = (outing, repair, dinner)
