CREATE TABLE potters (potter_id INTEGER PRIMARY KEY, name TEXT, town TEXT);
CREATE TABLE firings (firing_id INTEGER PRIMARY KEY, potter_id INTEGER, day TEXT, degrees INTEGER);
CREATE TABLE pots (pot_id INTEGER PRIMARY KEY, firing_id INTEGER, shape TEXT, price REAL, cracked INTEGER);
INSERT INTO potters VALUES (1, 'Marisol', 'Talavera'), (2, 'Idris', 'Safi'), (3, 'Keiko', 'Mashiko'), (4, 'Bram', 'Delft');
INSERT INTO firings VALUES (1, 1, '2025-01-10', 1040), (2, 1, '2025-02-14', 1220), (3, 2, '2025-02-20', 980), (4, 3, '2025-03-02', 1280), (5, 3, '2025-03-30', 1275);
INSERT INTO pots VALUES
  (1, 1, 'bowl', 12.5, 0), (2, 1, 'jug', 30.0, 1), (3, 1, 'bowl', 14.0, 0), (4, 2, 'vase', 55.0, 0),
  (5, 2, 'bowl', 16.0, 1), (6, 3, 'plate', 9.75, 0), (7, 3, 'plate', 9.75, 0), (8, 3, 'jug', 22.0, 0),
  (9, 4, 'tea bowl', 80.0, 0), (10, 4, 'tea bowl', 95.5, 0), (11, 4, 'vase', 120.0, 1), (12, 5, 'tea bowl', 70.0, 0);
