// Mistakes only: how JavaScript is laid out is for people to decide.

import js from "@eslint/js";
import globals from "globals";

export default [
  { ...js.configs.recommended, languageOptions: { ecmaVersion: 2024, sourceType: "module", globals: globals.browser } },
];
