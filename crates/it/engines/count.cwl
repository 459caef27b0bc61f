#!/usr/bin/env cwl-runner
# Counts the lines of each file and adds them up.
cwlVersion: v1.2
class: Workflow
requirements:
  ScatterFeatureRequirement: {}
inputs:
  reads: File[]
outputs:
  counts: { type: "File[]", outputSource: count/counted }
  total: { type: File, outputSource: add/added }
steps:
  count:
    scatter: file
    in: { file: reads }
    out: [counted]
    run:
      class: CommandLineTool
      baseCommand: [wc, -l]
      stdin: $(inputs.file.path)
      stdout: $(inputs.file.nameroot).count
      inputs: { file: File }
      outputs: { counted: stdout }
  add:
    in: { files: count/counted }
    out: [added]
    run:
      class: CommandLineTool
      baseCommand: [awk, "{ sum += $1 } END { print sum }"]
      stdout: total.txt
      inputs: { files: { type: "File[]", inputBinding: {} } }
      outputs: { added: stdout }
