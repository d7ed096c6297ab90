CREATE TYPE "JobStatus" AS ENUM ('PENDING', 'RUNNING', 'COMPLETED', 'FAILED');
CREATE TABLE "ImportJob" ("id" TEXT NOT NULL, "status" "JobStatus" NOT NULL DEFAULT 'PENDING', "fileName" TEXT NOT NULL,
  "rowCount" INTEGER, "errorMessage" TEXT, "startedAt" TIMESTAMP(3), "completedAt" TIMESTAMP(3),
  "createdAt" TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP, CONSTRAINT "ImportJob_pkey" PRIMARY KEY ("id"));
INSERT INTO "ImportJob" ("id", "status", "fileName") VALUES ('cold1', 'COMPLETED', 'old.csv'), ('cold2', 'FAILED', 'torn.csv');
