"""Questions, names and facts of the corpus."""

from __future__ import annotations

SUM_QUESTIONS = (
    "What is {}? Put the answer in \\boxed{{}}.",
    "Compute {}. Put the answer in \\boxed{{}}.",
    "Calculate {}. Put the answer in \\boxed{{}}.",
    "How much is {}? Put the answer in \\boxed{{}}.",
    "Work out {} and put the result in \\boxed{{}}.",
    "Solve {}. Make sure to put the answer (and only answer) inside \\boxed{{}}.",
    "What is {}?",
    "{} = ?",
    "Please add up: {}. Answer in \\boxed{{}}.",
)

WEATHER_QUESTIONS = (
    "What is the weather in {}?",
    "What's the weather like in {} today?",
    "How is the weather in {} right now?",
    "Tell me the weather in {}.",
    "Is it cold in {}?",
    "Do I need a coat in {} today?",
    "I am travelling to {}. How is the weather there?",
    "Should I take an umbrella in {}?",
    "Weather for {}, please.",
    "humidity in {}",
    "Can you check what it is like outside in {}?",
    "We are on our way to {}. What should we wear?",
    "Is it warm enough in {} for a walk?",
    "get the weather for {}",
)

WHICH_CITY_QUESTIONS = (
    "What is the weather?",
    "how's the outside?",
    "Is it cold today?",
    "Do I need a coat?",
    "Tell me the weather.",
    "Should I take an umbrella?",
    "What is it like outside?",
    "Is it warm enough for a walk?",
    "get the weather for 3 cities",
)

CITIES = (
    "Amsterdam", "Ankara", "Athens", "Auckland", "Baghdad", "Bangkok", "Barcelona", "Beijing", "Belgrade", "Berlin",
    "Bern", "Bogota", "Boston", "Brasilia", "Brussels", "Bucharest", "Budapest", "Cairo", "Calgary", "Canberra",
    "Caracas", "Chennai", "Chicago", "Copenhagen", "Dakar", "Dallas", "Delhi", "Denver", "Detroit", "Dhaka", "Doha",
    "Dubai", "Dublin", "Edinburgh", "Florence", "Geneva", "Glasgow", "Hamburg", "Hanoi", "Havana", "Helsinki",
    "Honolulu", "Houston", "Istanbul", "Jakarta", "Jerusalem", "Johannesburg", "Kabul", "Karachi", "Kathmandu",
    "Kinshasa", "Kyoto", "Lagos", "Lahore", "Lima", "Lisbon", "Liverpool", "London", "Lyon", "Madrid", "Manchester",
    "Manila", "Marseille", "Melbourne", "Memphis", "Miami", "Milan", "Montreal", "Moscow", "Mumbai", "Munich",
    "Nairobi", "Naples", "Nashville", "Osaka", "Oslo", "Ottawa", "Paris", "Perth", "Philadelphia", "Phoenix",
    "Portland", "Prague", "Quito", "Rabat", "Reykjavik", "Riga", "Rome", "Rotterdam", "Salzburg", "Santiago",
    "Sapporo", "Seattle", "Seoul", "Shanghai", "Singapore", "Sofia", "Stockholm", "Stuttgart", "Sydney", "Taipei",
    "Tallinn", "Tehran", "Tokyo", "Toronto", "Tunis", "Turin", "Vancouver", "Venice", "Vienna", "Vilnius", "Warsaw",
    "Wellington", "Winnipeg", "Zagreb", "Zurich", "Buenos Aires", "Cape Town", "Den Haag", "Ho Chi Minh City",
    "Hong Kong", "Kansas City", "Kuala Lumpur", "Las Vegas", "Los Angeles", "Mexico City", "New Delhi",
    "New Orleans", "New York", "Panama City", "Port Louis", "Rio de Janeiro", "Salt Lake City", "San Diego",
    "San Francisco", "San Jose", "Santa Fe", "Sao Paulo", "St. Petersburg", "Tel Aviv", "The Hague",
)  # fmt: skip

WEATHERS = (
    "cold", "cold", "cold", "cold", "warm", "sunny", "rainy", "windy", "cloudy", "mild", "hot", "foggy", "snowy",
)  # fmt: skip

SYSTEMS = (
    "You are a helpful assistant.",
    "You are a helpful personal assistant that aims to be helpful and reduce any pain points the user has.",
    "Think first, then answer.",
    "Answer in one sentence.",
)

KINDS: dict[str, tuple[str, ...]] = {
    "colour": (
        "red", "blue", "green", "yellow", "black", "white", "brown", "purple", "orange", "grey", "pink",
    ),
    "animal": (
        "cat", "dog", "horse", "cow", "sheep", "lion", "tiger", "mouse", "eagle", "whale", "frog", "snake",
    ),
    "fruit": (
        "apple", "pear", "banana", "cherry", "lemon", "grape", "peach", "plum", "melon", "mango",
    ),
    "country": (
        "France", "Spain", "Italy", "Japan", "China", "India", "Egypt", "Kenya", "Peru", "Chile", "Canada", "Norway",
    ),
    "metal": (
        "iron", "gold", "silver", "copper", "lead", "zinc", "tin", "nickel", "aluminium",
    ),
    "planet": (
        "Mercury", "Venus", "Earth", "Mars", "Jupiter", "Saturn", "Uranus", "Neptune",
    ),
    "month": (
        "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
        "December",
    ),
    "tool": (
        "hammer", "saw", "drill", "wrench", "shovel", "axe", "spade", "screwdriver",
    ),
}  # fmt: skip
WORDS = tuple(word for words in KINDS.values() for word in words)

FACTS = {
    "What is the capital of France?": "Paris",
    "What is the capital of Spain?": "Madrid",
    "What is the capital of Italy?": "Rome",
    "What is the capital of Japan?": "Tokyo",
    "What is the capital of Germany?": "Berlin",
    "What is the capital of Egypt?": "Cairo",
    "What is the capital of Norway?": "Oslo",
    "What is the capital of Peru?": "Lima",
    "What is the capital of Canada?": "Ottawa",
    "What is the capital of Australia?": "Canberra",
    "How many legs does a spider have?": "8",
    "How many legs does a dog have?": "4",
    "How many days are in a week?": "7",
    "How many months are in a year?": "12",
    "How many hours are in a day?": "24",
    "How many minutes are in an hour?": "60",
    "What colour is the sky?": "blue",
    "What colour is grass?": "green",
    "What is the opposite of hot?": "cold",
    "What is the opposite of up?": "down",
    "What is the chemical symbol for water?": "H2O",
    "Which planet do we live on?": "Earth",
    "Which planet is known as the red planet?": "Mars",
    "What is the largest ocean?": "the Pacific Ocean",
}
