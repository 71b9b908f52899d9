// The environment's tools as an extension of pi, which has no MCP.
import { readFileSync } from "node:fs";

const url = process.env.GYM_LLM_TOOLS_URL;

export default function (pi) {
  for (const tool of JSON.parse(readFileSync(process.env.GYM_LLM_TASK, "utf-8")).tools) {
    pi.registerTool({
      name: tool.name,
      label: tool.name,
      description: tool.description || tool.name,
      parameters: tool.parameters || { type: "object", properties: {} },
      async execute(_id, params) {
        const answer = await fetch(`${url}/tools/${encodeURIComponent(tool.name)}`, {
          method: "POST",
          headers: { "Content-Type": "application/json" },
          body: JSON.stringify(params),
        });
        const said = await answer.json();
        return { content: [{ type: "text", text: said.output ?? said.error ?? "" }], details: {} };
      },
    });
  }
}
