CREATE TABLE "ImportJob" ("id" TEXT NOT NULL PRIMARY KEY, "status" TEXT NOT NULL DEFAULT 'PENDING', "fileName" TEXT NOT NULL,
  "rowCount" INTEGER, "errorMessage" TEXT, "startedAt" DATETIME, "completedAt" DATETIME,
  "createdAt" DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP);
INSERT INTO "ImportJob" ("id", "status", "fileName") VALUES ('cold1', 'COMPLETED', 'old.csv'), ('cold2', 'FAILED', 'torn.csv');
