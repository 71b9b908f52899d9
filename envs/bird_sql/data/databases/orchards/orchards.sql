CREATE TABLE orchards (id INTEGER PRIMARY KEY, name TEXT NOT NULL, hectares REAL NOT NULL);
CREATE TABLE trees (id INTEGER PRIMARY KEY, orchard_id INTEGER NOT NULL REFERENCES orchards(id), kind TEXT NOT NULL, planted INTEGER NOT NULL);
CREATE TABLE pickings (tree_id INTEGER NOT NULL REFERENCES trees(id), year INTEGER NOT NULL, kilograms REAL NOT NULL, PRIMARY KEY (tree_id, year));
INSERT INTO orchards VALUES (1, 'Hillside', 2.5), (2, 'Millpond', 4.0), (3, 'Old Wall', 0.8);
INSERT INTO trees VALUES (1, 1, 'apple', 2001), (2, 1, 'pear', 2010), (3, 2, 'apple', 1995), (4, 2, 'plum', 2015), (5, 2, 'pear', 1999), (6, 3, 'quince', 1988);
INSERT INTO pickings VALUES (1, 2023, 41.5), (1, 2024, 38.0), (2, 2023, 20.0), (2, 2024, 25.5), (3, 2023, 60.0), (3, 2024, 0.0), (4, 2024, 12.25), (5, 2023, 33.0), (5, 2024, 35.0);
