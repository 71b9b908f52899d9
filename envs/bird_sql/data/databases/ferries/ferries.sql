CREATE TABLE ports (id INTEGER PRIMARY KEY, name TEXT NOT NULL, island INTEGER NOT NULL);
CREATE TABLE boats (id INTEGER PRIMARY KEY, name TEXT NOT NULL, seats INTEGER NOT NULL, built INTEGER);
CREATE TABLE crossings (
  id INTEGER PRIMARY KEY,
  boat_id INTEGER NOT NULL REFERENCES boats(id),
  from_port INTEGER NOT NULL REFERENCES ports(id),
  to_port INTEGER NOT NULL REFERENCES ports(id),
  day TEXT NOT NULL,
  passengers INTEGER NOT NULL
);
INSERT INTO ports VALUES (1, 'Holmstad', 0), (2, 'Ransoy', 1), (3, 'Ytteroy', 1), (4, 'Vik', 0);
INSERT INTO boats VALUES (1, 'Lom', 120, 1998), (2, 'Skarv', 60, 2011), (3, 'Tjeld', 240, NULL);
INSERT INTO crossings VALUES
  (1, 1, 1, 2, '2025-05-01', 80), (2, 1, 2, 1, '2025-05-01', 95), (3, 2, 4, 3, '2025-05-01', 60),
  (4, 2, 3, 4, '2025-05-02', 12), (5, 3, 1, 4, '2025-05-02', 201), (6, 1, 1, 2, '2025-05-03', 120),
  (7, 3, 4, 1, '2025-05-03', 180), (8, 2, 1, 3, '2025-06-01', 44);
